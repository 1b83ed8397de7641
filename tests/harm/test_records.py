"""A session whose `session.json` or log is damaged, by a disk, a person or another version: the others are not affected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import ScriptedEngine, environ

_FAR = 1e300
"""No moment."""


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ(), stdin=subprocess.DEVNULL)


def _session(name: str) -> Path:
    """The folder of a session that was lost."""
    made = ScriptedEngine(script=f"{name}.py")
    sessions.write_record(sessions.Record(made.session, made.briefs))
    (made.folder / sessions.ENGINE_LOG).touch()
    return made.folder


def _with(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        data = msgspec.json.decode((folder / sessions.RECORD).read_bytes())
        change(data)
        (folder / sessions.RECORD).write_bytes(msgspec.json.encode(data))

    return damage


def _deep(folder: Path) -> None:
    record = (folder / sessions.RECORD).read_bytes()
    (folder / sessions.RECORD).write_bytes(b'{"later": %s,' % (b"[" * 50_000 + b"]" * 50_000) + record[1:])


def _no_utf_8(folder: Path) -> None:
    record = (folder / sessions.RECORD).read_bytes()
    (folder / sessions.RECORD).write_bytes(record.replace(b"bad.py", b"bad\xff.py"))


def _pipe(folder: Path) -> None:
    (folder / sessions.ENGINE_LOG).unlink()
    os.mkfifo(folder / sessions.ENGINE_LOG)


@pytest.mark.parametrize(
    ("damage", "listed"),
    [
        (_deep, False),
        (_no_utf_8, False),
        (_with(lambda record: record["session"].update(started=_FAR)), False),
        (_with(lambda record: record.update(ended=-_FAR)), False),
        (_with(lambda record: record.update(loss={"died": _FAR, "pids": []})), False),
        (_with(lambda record: record["workers"][0].update(state="of another version")), True),
        (_pipe, True),
    ],
)
@pytest.mark.parametrize("shift_s", [-3600.0, 3600.0])
def test_one_damaged_session_keeps_nobody_from_the_others(
    damage: Callable[[Path], None], listed: bool, shift_s: float
) -> None:
    """Its folder is from an hour ago, or from the future of a clock that has been set back since."""
    folder = _session("bad")
    damage(folder)
    os.utime(folder, (time.time() + shift_s,) * 2)
    _session("good")
    found = _gmg("ls", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert {row["name"] for row in json.loads(found.stdout)} == {"good-1", *(["bad-1"] if listed else [])}
    told = _gmg("ls").stdout
    assert ("remove it with: gmg-tui rm bad-1" in told) is not listed
    removed = _gmg("rm", "bad-1", "--yes")
    assert (removed.returncode, removed.stderr) == (0, "")
