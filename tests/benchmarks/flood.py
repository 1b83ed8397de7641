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
from tests.benchmarks.printer import FORMS, lines
from tests.benchmarks.report import markdown, quantile, say
from tests.pseudo_terminal import PseudoTerminal, text_of

PRINTER = HERE / "printer.py"
BLOCK = 500
_WORKERS = 2
_PRESS_S = 0.37
"""Between two keys; no multiple of any clock of the interface."""
_PAUSED, _FOLLOWING = "log paused", "log following"


class Flood(NamedTuple):
    """What was measured."""

    form: str
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


def run(ground: Ground, *, quick: bool) -> None:
    """Measure both forms of lines, and print the table."""
    floods = []
    for form in FORMS:
        count = (500_000 if quick else 5_000_000) * (1 if form == "fps" else 4)
        say(f"flood of {form} lines: {_WORKERS} × {count:,}")
        floods.append(flood(ground, form, count))
    head = ["flood of two workers", *(f"{each.form} lines" for each in floods)]

    def row(name: str, figure: Callable[[Flood], str]) -> list[str]:
        return [name, *(figure(each) for each in floods)]

    rows = [
        row("lines", lambda each: f"{each.lines:,}"),
        row("taken in, lines/s", lambda each: f"{each.lines_s:,.0f}"),
        row("lines missing in the log files", lambda each: f"{each.lost:,}"),
        row("key to its effect, p50", lambda each: f"{1000 * quantile(each.answers_s, 0.5):.0f} ms"),
        row("key to its effect, p95", lambda each: f"{1000 * quantile(each.answers_s, 0.95):.0f} ms"),
        row("keys", lambda each: f"{len(each.answers_s)}"),
        row("memory before, MiB PSS (RSS)", lambda each: f"{each.before.pss_mib:.1f} ({each.before.rss_mib:.1f})"),
        row("memory after, MiB PSS (RSS)", lambda each: f"{each.after.pss_mib:.1f} ({each.after.rss_mib:.1f})"),
    ]
    print(markdown(head, rows), "\n")


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
    found = sum(_count(log) for log in logs.iterdir())
    for log in logs.iterdir():
        log.unlink()
    total = _WORKERS * count
    return Flood(form, total, total / (ended - began), total - found, answers_s(terminal, presses), before, after)


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
    found = []
    for press, until in zip(presses, [*(press.at for press in presses[1:]), float("inf")], strict=bool(presses)):
        for chunk in chunks:
            stream.feed(chunk.data)
            if chunk.at >= until or (chunk.at >= press.at and press.effect in text_of(screen)):
                found.append(min(chunk.at, until) - press.at)
                break
    return found


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
