"""What workers may print: floods, endless lines, noise, and everything that a terminal might act upon."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from tests.terminal.screen import ENTER, ESCAPE, Terminal

from . import hostile

pytestmark = pytest.mark.terminal

SCRIPT = str(Path(hostile.__file__))
MIB = 1 << 20


def _quit(terminal: Terminal) -> None:
    terminal.press("q")
    terminal.until("Stop the workers")
    terminal.press("x")
    terminal.until_ended()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size"), [("lines", 300_000), ("long", 30_000_000), ("noise", 10_000_000), ("tabs", 10_000_000)]
)
def test_memory_does_not_grow_and_the_log_has_every_byte(kind: str, size: int, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    whole = sum(map(len, hostile.KINDS[kind](size)))
    with Terminal("--cpu", "1", SCRIPT, kind, str(size), str(gate)) as terminal:
        terminal.until("cpu0 log")
        (entry,) = sessions.list_sessions()
        log = entry.folder / "logs" / "cpu0.log"
        processes = [psutil.Process(pid) for pid in (entry.record.session.engine_pid, terminal.pid)]
        terminal.until(lambda _: log.exists() and log.stat().st_size >= whole // 4)
        _answers(terminal)
        before = [process.memory_info().rss for process in processes]
        gate.touch()
        terminal.until(lambda _: log.stat().st_size >= whole, timeout_s=600)
        _answers(terminal)
        after = [process.memory_info().rss for process in processes]
        engine, interface = [(late - early) / MIB for early, late in zip(before, after, strict=True)]
        assert engine < 12, f"the engine has grown by {engine:.1f} MiB"
        assert interface < 24, f"the interface has grown by {interface:.1f} MiB"
        assert sum(after) / MIB < 300
        assert log.stat().st_size == whole
        assert _sha256(log) == hostile.digest(kind, size)
        _quit(terminal)


def _answers(terminal: Terminal) -> None:
    """The interface takes keys, and draws."""
    terminal.press("?")
    terminal.until("─ Help ─")
    terminal.press(ESCAPE)
    terminal.until(lambda text: "─ Help ─" not in text)


_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]",
    re.DOTALL,
)


_DRAWING = re.compile(rb"\x1b\[[\d;]*[ABCDGHKXm]")
"""Colours and moves of the cursor, of which a screen chooses others each time."""


def _kinds(raw: bytes) -> set[bytes]:
    """The escape sequences and control characters in `raw` that do more than draw."""
    return {sequence for sequence in _SEQUENCE.findall(raw) if not _DRAWING.fullmatch(sequence)}


def _through_all_screens(terminal: Terminal, last_words: str, gate: Path) -> bytes:
    terminal.until("cpu0 log", last_words)
    _answers(terminal)
    for key in ("t", "t", "f", "f"):
        terminal.press(key)
    terminal.press(ENTER)
    for text in ("FPS", "Worker", "share of the CPU", "state", "Command line", "verdict", "event", "cpu0 log"):
        terminal.press("\t")
        terminal.until("PID", text)
    terminal.press(ESCAPE)
    terminal.until("cpu0 log")
    terminal.press("/")
    terminal.until("search")
    terminal.press("END", ENTER)
    terminal.until(" match ")
    terminal.press(ESCAPE)
    terminal.until("following")
    gate.touch()
    terminal.until("failed")
    terminal.press("q")
    terminal.until_ended()
    return terminal.raw


def test_worker_output_cannot_control_the_terminal(tmp_path: Path) -> None:
    """Whatever it prints, the terminal gets the sequences that it also gets for a worker that behaves."""
    tame = tmp_path / "tame.py"
    tame.write_text(
        f"import sys; sys.path.insert(0, {str(Path(SCRIPT).parent)!r}); import hostile\n"
        "print('Running at 1,000.00 FPS (100.00 FPS per env, 10 envs).\\nEND OF NOISE', flush=True)\n"
        "hostile.wait_for(sys.argv[1])\nraise ValueError('the end')\n"
    )
    with Terminal("--cpu", "1", str(tame), str(tmp_path / "gate-1")) as terminal:
        usual = _kinds(_through_all_screens(terminal, "END OF NOISE", tmp_path / "gate-1"))
    with Terminal("--cpu", "1", SCRIPT, "escapes", "0", str(tmp_path / "gate-2")) as terminal:
        raw = _through_all_screens(terminal, "END OF NOISE", tmp_path / "gate-2")
    assert _kinds(raw) <= usual
    entry = sessions.find(None, running=False)
    assert entry.record.workers[0].reason
    assert entry.record.workers[0].reason.isprintable()
    assert (entry.folder / "logs" / "cpu0.log").read_bytes().startswith(b"".join(hostile.escapes()))


def test_the_reporter_prints_no_control_characters_of_workers(tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    command = [sys.executable, "-m", "gmg_tui", "--headless", "--cpu", "1", SCRIPT]
    done = subprocess.run([*command, "escapes", "0", str(tmp_path / "gate")], capture_output=True)
    assert done.returncode == 1
    assert b"END OF NOISE" in done.stdout
    assert b"the end" in done.stdout
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", done.stdout + done.stderr)
