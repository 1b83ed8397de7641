"""Sessions whose `session.json` or log is damaged, by a disk, a person or another version, do not affect the others."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui import session as sessions
from tests.cli.scripted import ScriptedEngine, gmg

_NEVER = 1e300
"""Not a point in time."""


def _lost_session(name: str) -> Path:
    """The folder of a session called `NAME-1` whose engine was lost."""
    engine = ScriptedEngine(script=f"{name}.py")
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    (engine.folder / sessions.ENGINE_LOG).touch()
    return engine.folder


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
    (folder / sessions.RECORD).write_bytes(record.replace(b".py", b"\xff.py"))


def _pipe(folder: Path) -> None:
    (folder / sessions.ENGINE_LOG).unlink()
    os.mkfifo(folder / sessions.ENGINE_LOG)


UNREADABLE = {
    "deep": _deep,
    "bytes": _no_utf_8,
    "started": _with(lambda record: record["session"].update(started=_NEVER)),
    "ended": _with(lambda record: record.update(ended=-_NEVER)),
    "state": _with(lambda record: record["workers"][0].update(state="of another version")),
    "lost": _with(lambda record: record.update(lost="at times")),
}
READABLE = {"pipe": _pipe}


def test_damaged_sessions_do_not_hide_others_and_can_be_removed() -> None:
    """Some folders are from an hour ago, the others from the future of a clock that was set back since."""
    for number, (name, damage) in enumerate({**UNREADABLE, **READABLE}.items()):
        folder = _lost_session(name)
        damage(folder)
        os.utime(folder, (time.time() + (3600 if number % 2 else -3600),) * 2)
    _lost_session("good")
    listed = gmg("ls", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert {row["name"] for row in json.loads(listed.stdout)} == {f"{name}-1" for name in ("good", *READABLE)}
    table = gmg("ls").stdout
    for name in (*UNREADABLE, *READABLE):
        assert (f"gmg-tui rm {name}-1" in table) == (name in UNREADABLE)
    removed = gmg("rm", "--yes", *(f"{name}-1" for name in (*UNREADABLE, *READABLE)))
    assert (removed.returncode, removed.stderr) == (0, "")
    assert [entry.name for entry in sessions.list_sessions()] == ["good-1"]
