"""Many machines: the engine and the screen over 64 nodes of eight simulated cards, whose agents are light ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import NamedTuple

from tests.benchmarks import usage
from tests.benchmarks.ground import FAKE, HERE, ROOT, Ground
from tests.benchmarks.light_agent import CARDS
from tests.benchmarks.report import Row, progress, quantile
from tests.pseudo_terminal import PseudoTerminal

AGENT = HERE / "light_agent.py"
_NODES = 64


class Watched(NamedTuple):
    """What was measured while a screen was open."""

    start_s: float
    alone: dict[str, float]
    """CPU of each part without a screen, per cent of a core."""
    shown: dict[str, float]
    """The same with one."""
    rss_mib: float
    bytes_s: float
    keys_s: list[float]


def is_light(command: list[str]) -> bool:
    """Whether a command line is a light agent's."""
    return str(AGENT) in command[1:2]


def run(ground: Ground, *, quick: bool) -> list[Row]:
    """The rows of many machines."""
    nodes = 8 if quick else _NODES
    taken = _watched(ground, nodes, 5.0 if quick else 20.0)
    total = sum(taken.shown.values())
    parts = " + ".join(f"{name} {pct:.1f}" for name, pct in sorted(taken.shown.items()))
    return [
        Row(f"{nodes * CARDS} slots on {nodes} nodes: CPU, % of a core", "≤ 25", f"{total:.1f} ({parts})"),
        Row("– memory, MiB RSS", "≤ 300", f"{taken.rss_mib:.0f}"),
        Row("– bytes/s to the terminal", "–", f"{taken.bytes_s:,.0f}"),
        Row("– key to the first byte after it, ms, p50 / max", "≤ 100", _keys(taken.keys_s)),
        Row("– session started on all nodes, s", "–", f"{taken.start_s:.1f}"),
    ]


def _keys(keys_s: list[float]) -> str:
    return f"{1000 * quantile(keys_s, 0.5):.0f} / {1000 * max(keys_s):.0f}"


def _options(nodes: int, name: str) -> list[str]:
    return ["--nodes", "ssh:" + ",".join(f"h{number:03}" for number in range(nodes)), "--detach", "--name", name]


def _env(ground: Ground, mark: str) -> dict[str, str]:
    return ground.env() | {usage.MARK: mark, "GMG_SSH": f"{sys.executable} {AGENT}"}


def _watched(ground: Ground, nodes: int, for_s: float) -> Watched:
    progress(f"{nodes} nodes")
    mark = ground.mark()
    env, gmg = _env(ground, mark), [sys.executable, "-m", "gmg_tui"]
    began = time.monotonic()
    subprocess.run([*gmg, *_options(nodes, mark), str(FAKE)], env=env, check=True, stdout=subprocess.DEVNULL)
    start_s = time.monotonic() - began
    try:
        time.sleep(5)
        before = usage.usage(mark, is_light)
        time.sleep(for_s)
        alone = usage.usage(mark, is_light).cpu_pct_by_part(before)
        with PseudoTerminal([*gmg, "attach", mark], columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
            terminal.wait_for(lambda text: f"{nodes * CARDS} running" in text, timeout_s=60)
            time.sleep(5)
            before, chunks = usage.usage(mark, is_light), len(terminal.chunks)
            time.sleep(for_s)
            after = usage.usage(mark, is_light)
            sent = sum(len(chunk.data) for chunk in terminal.chunks[chunks:])
            keys_s = [_key_s(terminal, key) for key in itertools.islice(itertools.cycle("jjkjjkjk"), 40)]
            rss_mib = usage.usage(mark, is_light).rss_mib
        return Watched(start_s, alone, after.cpu_pct_by_part(before), rss_mib, sent / for_s, keys_s)
    finally:
        usage.end(mark)


def _key_s(terminal: PseudoTerminal, key: str) -> float:
    """Seconds from a key to the next bytes on the terminal."""
    time.sleep(0.37)
    count = len(terminal.chunks)
    pressed = terminal.press(key)
    while len(terminal.chunks) == count:
        time.sleep(0.001)
    return terminal.chunks[count].at - pressed
