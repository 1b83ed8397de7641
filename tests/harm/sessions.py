"""Sessions that run on their own, as a person finds them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.model import Snapshot

STEPS = ("--plain", "--phase-s", "0", "--lines", "0", "--rate", "20")
"""The worker prints `step 0`, `step 1` …, 20 a second, for ever."""


def the_session() -> sessions.SessionEntry:
    """The only session of this test."""
    (found,) = sessions.listing()
    return found


def look(found: sessions.SessionEntry) -> Snapshot:
    """How the session is now, from its engine."""

    async def ask() -> Snapshot:
        client = await EngineClient.connect(Path(found.record.session.spec.socket))
        await client.close()
        return client.welcome.snapshot

    return asyncio.run(ask())


def steps(found: sessions.SessionEntry, slot: str) -> list[int]:
    """The numbers that the worker's log file has."""
    text = (found.folder / sessions.LOGS / f"{slot}.log").read_bytes()
    return [int(number) for number in re.findall(rb"^step (\d+)$", text, re.MULTILINE)]


def shown(text: str) -> int:
    """The newest step on a screen with this text; -1 without one."""
    return max((int(number) for number in re.findall(r"step (\d+)", text)), default=-1)


def stop(found: sessions.SessionEntry) -> None:
    """End the session as a person would."""
    subprocess.run([sys.executable, "-m", "gmg_tui", "stop", found.name], check=True, capture_output=True)
