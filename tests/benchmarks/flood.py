"""The flood: two workers that print as fast as their lines are read, under the whole program."""

import itertools
import sys
import time
from pathlib import Path

import pyte

from tests.benchmarks import usage
from tests.benchmarks.ground import HERE, ROOT, Ground
from tests.benchmarks.printer import LINE
from tests.benchmarks.report import Row, progress, quantile
from tests.pseudo_terminal import PseudoTerminal, text_of

PRINTER = HERE / "printer.py"
_WORKERS = 2
_PRESS_S = 0.37
"""Between two keys; no multiple of any clock of the interface."""
_TIMEOUT_S = 300.0


def _is_worker(command: list[str]) -> bool:
    return str(PRINTER) in command[1:2]


def run(ground: Ground, *, quick: bool) -> list[Row]:
    """Genesis's progress lines, printed by two workers as fast as they are read."""
    count = 500_000 if quick else 5_000_000
    total = _WORKERS * count
    progress(f"flood: {_WORKERS} × {count:,} lines")
    mark = ground.mark()
    gate = ground.folder / f"{mark}.go"
    options = ["--cpu", str(_WORKERS), "--start", "together", "--name", mark]
    command = [sys.executable, "-m", "gmg_tui", *options, str(PRINTER), str(count), str(gate)]
    logs = ground.folder / "state" / "gmg-tui" / "sessions" / mark / "logs"
    env = ground.env() | {usage.MARK: mark}
    with PseudoTerminal(command, columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
        try:
            terminal.wait_for(lambda text: "cpu0" in text and "log" in text, timeout_s=20)
            time.sleep(3)
            before = usage.usage(mark, _is_worker)
            gate.touch()
            began = time.monotonic()
            presses = _press_until_written(terminal, logs, total * len(LINE.encode()))
            took_s = time.monotonic() - began
            time.sleep(2)
            after = usage.usage(mark, _is_worker)
        finally:
            usage.end(mark)
    lost = total - sum(_count(log) for log in logs.iterdir())
    for log in logs.iterdir():
        log.unlink()
    answers_s = _answers_s(terminal, presses)
    p50_ms, p95_ms = (1000 * quantile(answers_s, share) for share in (0.5, 0.95))
    return [
        Row("two flooding workers: lines/s ingested", "≥ 400,000", f"{total / took_s:,.0f}"),
        Row("– lines missing in the log files", "0", f"{lost:,} of {total:,}"),
        Row("– key to its effect, ms, p50 / p95", "≤ 100", f"{p50_ms:.0f} / {p95_ms:.0f} ({len(answers_s)} keys)"),
        Row("– memory, MiB RSS, before → after", "≤ 100", f"{before.rss_mib:.0f} → {after.rss_mib:.0f}"),
    ]


def _press_until_written(terminal: PseudoTerminal, logs: Path, size: int) -> list[tuple[float, str]]:
    """Pause and follow the log in turn until the log files have `size` bytes. Returns each key's moment and effect."""
    presses: list[tuple[float, str]] = []
    effects = itertools.cycle(("paused", "following"))
    began = time.monotonic()
    due = began + 3 * _PRESS_S  # a log without a line cannot be paused
    while not logs.exists() or sum(log.stat().st_size for log in logs.iterdir()) < size:
        now = time.monotonic()
        if now - began > _TIMEOUT_S:
            raise TimeoutError(f"not all lines were in the log files after {_TIMEOUT_S:.0f} s")
        if now >= due:
            due = now + _PRESS_S
            presses.append((terminal.press("f"), next(effects)))
        time.sleep(0.01)
    return presses


def _answers_s(terminal: PseudoTerminal, presses: list[tuple[float, str]]) -> list[float]:
    """Seconds from each key to its effect; where the next key came first, the seconds until that."""
    screen = pyte.Screen(terminal.columns, terminal.rows)
    stream = pyte.ByteStream(screen)
    chunks = iter(list(terminal.chunks))
    answers = []
    for (at, effect), (until, _) in itertools.pairwise([*presses, (float("inf"), "")]):
        for chunk in chunks:
            stream.feed(chunk.data)
            if chunk.at >= until or (chunk.at >= at and effect in text_of(screen)):
                answers.append(min(chunk.at, until) - at)
                break
    return answers


def _count(log: Path) -> int:
    """The printer's lines in a log file."""
    count, rest = 0, b""
    with log.open("rb") as file:
        while data := file.read(1 << 24):
            lines, _, rest = (rest + data).rpartition(b"\n")
            count += lines.count(b"Running at")
    return count
