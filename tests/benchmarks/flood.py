"""The flood: two workers that print as fast as their lines are taken, under the whole program."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyte

from tests.benchmarks import usage
from tests.benchmarks.ground import HERE, ROOT, Ground
from tests.benchmarks.printer import lines
from tests.benchmarks.report import Row, progress, quantile
from tests.pseudo_terminal import PseudoTerminal, text_of

PRINTER = HERE / "printer.py"
BLOCK = 500
_WORKERS = 2
_PRESS_S = 0.37
"""Between two keys; no multiple of any clock of the interface."""
_PAUSED, _FOLLOWING = "log paused", "log following"


class Flood(NamedTuple):
    """What was measured."""

    lines: int
    lines_s: float
    lost: int
    """Lines that are not in the log files."""
    answers_s: list[float]
    before: usage.Usage
    after: usage.Usage


class Press(NamedTuple):
    """A key, and what it does."""

    at: float
    """Monotonic seconds."""
    effect: str
    """On the screen when it has been obeyed."""


def is_worker(command: list[str]) -> bool:
    """Whether a command line is a printer's."""
    return str(PRINTER) in command[1:2]


def run(ground: Ground, *, quick: bool) -> list[Row]:
    """Genesis' progress lines, printed by two workers as fast as they are read."""
    count = 500_000 if quick else 5_000_000
    progress(f"flood: {_WORKERS} × {count:,} lines")
    taken = flood(ground, "fps", count)
    p50_ms, p95_ms = (1000 * quantile(taken.answers_s, share) for share in (0.5, 0.95))
    memory = f"{taken.before.rss_mib:.0f} → {taken.after.rss_mib:.0f}"
    return [
        Row("two flooding workers: lines/s ingested", "≥ 400,000", f"{taken.lines_s:,.0f}"),
        Row("– lines missing in the log files", "0", f"{taken.lost:,} of {taken.lines:,}"),
        Row(
            "– key to its effect, ms, p50 / p95", "≤ 100", f"{p50_ms:.0f} / {p95_ms:.0f} ({len(taken.answers_s)} keys)"
        ),
        Row("– memory, MiB RSS, before → after", "≤ 100", memory),
    ]


def flood(ground: Ground, form: str, count: int) -> Flood:
    """Let two workers print `count` lines each."""
    mark = ground.mark()
    go, took = ground.folder / f"{mark}.go", ground.folder / f"{mark}.took-{{i}}"
    printer = [str(PRINTER), "--form", form, "--block", str(BLOCK), "--lines", str(count), "--stay"]
    run = ["-m", "gmg_tui", "--cpu", str(_WORKERS), "--start", "together", "--name", mark]
    command = [sys.executable, *run, *printer, "--wait", str(go), "--took", str(took)]
    logs = ground.folder / "state" / "gmg-tui" / "sessions" / mark / "logs"
    size = len("".join(f"{line}\n" for line in lines(form, 0, BLOCK)).encode()) * (count // BLOCK)
    env = ground.env() | {usage.MARK: mark}
    with PseudoTerminal(command, columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
        try:
            terminal.wait_for(lambda text: "cpu0" in text and "log" in text, timeout_s=20)
            time.sleep(3)
            before = usage.usage(mark, is_worker)
            go.touch()
            began = time.monotonic()
            presses, ended = _press_until(terminal, lambda: _written(logs) >= _WORKERS * size)
            time.sleep(2)
            after = usage.usage(mark, is_worker)
        finally:
            usage.end(mark)
    written = sum(_count(log) for log in logs.iterdir())
    for log in logs.iterdir():
        log.unlink()
    total = _WORKERS * count
    return Flood(total, total / (ended - began), total - written, answers_s(terminal, presses), before, after)


def _press_until(
    terminal: PseudoTerminal, done: Callable[[], bool], *, timeout_s: float = 300.0
) -> tuple[list[Press], float]:
    """Pause the log and follow it again, in turn, until `done`. Returns the keys and the moment."""
    presses: list[Press] = []
    effects = itertools.cycle((_PAUSED, _FOLLOWING))
    deadline = time.monotonic() + timeout_s
    due = time.monotonic() + 3 * _PRESS_S  # a log without a line cannot be paused
    while not done():
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"not all lines were in the log files after {timeout_s:.0f} s")
        if now >= due:
            due = now + _PRESS_S
            presses.append(Press(terminal.press("f"), next(effects)))
        time.sleep(0.01)
    return presses, time.monotonic()


def answers_s(terminal: PseudoTerminal, presses: list[Press]) -> list[float]:
    """Seconds from each key to its effect; where the next key came first, the seconds until that."""
    screen = pyte.Screen(terminal.columns, terminal.rows)
    stream = pyte.ByteStream(screen)
    chunks = iter(list(terminal.chunks))
    answers = []
    for press, until in zip(presses, [*(press.at for press in presses[1:]), float("inf")], strict=bool(presses)):
        for chunk in chunks:
            stream.feed(chunk.data)
            if chunk.at >= until or (chunk.at >= press.at and press.effect in text_of(screen)):
                answers.append(min(chunk.at, until) - press.at)
                break
    return answers


def _written(logs: Path) -> int:
    return sum(log.stat().st_size for log in logs.iterdir()) if logs.exists() else 0


def _count(log: Path) -> int:
    """The printer's lines in a log file."""
    words = tuple(form.encode() for form in ("of a script", "Running at"))
    count, rest = 0, b""
    with log.open("rb") as file:
        while data := file.read(1 << 24):
            whole, _, rest = (rest + data).rpartition(b"\n")
            count += sum(whole.count(word) for word in words)
    return count
