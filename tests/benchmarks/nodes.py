"""Many machines: the engine and the screen over 64 nodes of eight simulated GPUs, whose agents are light ones."""

import itertools
import subprocess
import sys
import time

from tests.benchmarks import usage
from tests.benchmarks.ground import FAKE, HERE, ROOT, Ground
from tests.benchmarks.light_agent import CARDS
from tests.benchmarks.report import Row, progress, quantile
from tests.pseudo_terminal import PseudoTerminal

AGENT = HERE / "light_agent.py"
_NODES = 64
_GMG = (sys.executable, "-m", "gmg_tui")


def _is_agent(command: list[str]) -> bool:
    return str(AGENT) in command[1:2]


def run(ground: Ground, *, quick: bool) -> list[Row]:
    nodes, seconds = (8, 5.0) if quick else (_NODES, 20.0)
    progress(f"{nodes} nodes")
    mark = ground.mark()
    env = ground.env() | {usage.MARK: mark, "GMG_SSH": f"{sys.executable} {AGENT}"}
    hosts = "ssh:" + ",".join(f"h{number:03}" for number in range(nodes))
    began = time.monotonic()
    command = [*_GMG, "--nodes", hosts, "--detach", "--name", mark, str(FAKE)]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    start_s = time.monotonic() - began
    try:
        with PseudoTerminal([*_GMG, "attach", mark], columns=160, rows=48, env=env, cwd=str(ROOT)) as terminal:
            terminal.wait_for(lambda text: f"{nodes * CARDS} running" in text, timeout_s=60)
            time.sleep(5)
            before, sent = usage.usage(mark, _is_agent), terminal.bytes
            time.sleep(seconds)
            after, sent = usage.usage(mark, _is_agent), terminal.bytes - sent
            keys_ms = [1000 * _key_s(terminal, key) for key in itertools.islice(itertools.cycle("jjkjjkjk"), 40)]
            rss_mib = usage.usage(mark, _is_agent).rss_mib
    finally:
        usage.end(mark)
    parts_pct = after.cpu_pct(before)
    parts = " + ".join(f"{name} {pct:.1f}" for name, pct in sorted(parts_pct.items()))
    total = f"{sum(parts_pct.values()):.1f} ({parts})"
    return [
        Row(f"{nodes * CARDS} slots on {nodes} nodes: CPU, % of a core", "≤ 25", total),
        Row("– memory, MiB RSS", "≤ 300", f"{rss_mib:.0f}"),
        Row("– bytes/s to the terminal", "–", f"{sent / (after.at - before.at):,.0f}"),
        Row("– key to the first byte, ms, p50 / max", "≤ 100", f"{quantile(keys_ms, 0.5):.0f} / {max(keys_ms):.0f}"),
        Row("– session started on all nodes, s", "–", f"{start_s:.1f}"),
    ]


def _key_s(terminal: PseudoTerminal, key: str) -> float:
    """Seconds from a key to the next bytes on the terminal."""
    time.sleep(0.37)
    count = len(terminal.chunks)
    pressed = terminal.press(key)
    while len(terminal.chunks) == count:
        time.sleep(0.001)
    return terminal.chunks[count].at - pressed
