"""Sessions that run on their own, as a person finds them, and workers that count their lines."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.model import Snapshot
from gmg_tui.session.client import EngineClient

STEPS = ("--plain", "--phase-s", "0", "--lines", "0", "--rate", "20")
"""The worker prints `step 0`, `step 1` …, 20 a second, until it is ended."""


def the_session() -> sessions.SessionEntry:
    (entry,) = sessions.list_sessions()
    return entry


def snapshot_of(entry: sessions.SessionEntry) -> Snapshot:
    async def ask() -> Snapshot:
        client = await EngineClient.connect(Path(entry.record.session.spec.socket))
        await client.close()
        return client.welcome.snapshot

    return asyncio.run(ask())


def steps_in(output: bytes) -> list[int]:
    """The numbers of the lines `step N` in a worker's output."""
    return [int(number) for number in re.findall(rb"^step (\d+)$", output, re.MULTILINE)]


def steps(entry: sessions.SessionEntry, slot: str) -> list[int]:
    return steps_in((entry.folder / sessions.LOGS / f"{slot}.log").read_bytes())


def newest_step(text: str) -> int:
    """The newest step on a screen with this text; -1 without one."""
    return max((int(number) for number in re.findall(r"step (\d+)", text)), default=-1)


def written(stamps: Path) -> int:
    """How many lines a worker has written, by its own record (`fake_worker.py --stamp`)."""
    complete = stamps.read_text().rpartition("\n")[0]
    return int(complete.rpartition("\n")[2].split()[0]) if complete else 0


def stop(entry: sessions.SessionEntry) -> None:
    subprocess.run([sys.executable, "-m", "gmg_tui", "stop", entry.name], check=True, capture_output=True)
