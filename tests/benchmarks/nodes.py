"""Many machines: the engine and the screen over 64 nodes of eight simulated cards, whose agents are light ones."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from typing import NamedTuple

from tests.benchmarks import usage
from tests.benchmarks.ground import FAKE, HERE, ROOT, Ground
from tests.benchmarks.light_agent import CARDS
from tests.benchmarks.report import markdown, quantile, say
from tests.benchmarks.sweeping import JOB
from tests.pseudo_terminal import PseudoTerminal

AGENT = HERE / "light_agent.py"
_NODES = 64
_SLOTS, _ROUNDS = 4, 5
_AIM_SHARE = 0.97
_AIM_PCT, _AIM_MIB, _AIM_KEY_MS, _AIM_JOB_MS = 25.0, 300.0, 100.0, 20.0


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


def run(ground: Ground, *, quick: bool) -> None:
    """Measure, and print the table."""
    nodes = 8 if quick else _NODES
    seen = _watched(ground, nodes, 5.0 if quick else 20.0)
    job_ms = _job_ms(ground, nodes, 2 if quick else 4)
    slots = nodes * CARDS
    total = sum(seen.shown.values())
    parts = " + ".join(f"{name} {pct:.1f}" for name, pct in sorted(seen.shown.items()))
    rows = [
        ["all agents have answered, and the session has begun", "–", f"{seen.start_s:.1f} s"],
        ["engine that nobody watches, CPU, % of a core", "–", f"{sum(seen.alone.values()):.1f}"],
        ["engine and UI, CPU, % of a core", f"{_AIM_PCT:.0f}", f"{total:.1f} ({parts})"],
        ["engine and UI, MiB RSS", f"{_AIM_MIB:.0f}", f"{seen.rss_mib:.0f}"],
        ["bytes to the terminal, a second", "–", f"{seen.bytes_s:,.0f}"],
        ["a key to the first byte after it, p50 / max", f"{_AIM_KEY_MS:.0f} ms", _keys(seen.keys_s)],
        ["a job's dispatch and end, the engine's CPU", f"{_AIM_JOB_MS:.0f} ms", f"{job_ms:.1f} ms"],
        ["by that, 1,000 nodes: engine that nobody watches", "–", f"{sum(seen.alone.values()) * 1000 / nodes:.0f} %"],
    ]
    print(markdown([f"{slots} slots on {nodes} nodes, 160×48", "at most", "measured"], rows), "\n")
    _results(ground, job_s=2.0 if quick else 10.0)


def _results(ground: Ground, *, job_s: float) -> None:
    """What two nodes of real agents and workers do in an hour, against one."""
    here, there = (_jobs_an_hour(ground, nodes, job_s) for nodes in (1, 2))
    rows = [
        ["one node, jobs an hour", "–", f"{here:,.0f}"],
        ["two nodes", "–", f"{there:,.0f}"],
        ["two nodes against twice one", f"{_AIM_SHARE:.2f}", f"{there / here / 2:.3f}"],
    ]
    print(markdown([f"a sweep of jobs of {job_s:.0f} s, {_SLOTS} slots a node", "at least", "measured"], rows), "\n")


def _jobs_an_hour(ground: Ground, nodes: int, job_s: float) -> float:
    """From the first job's start to the last one's end."""
    count = nodes * _SLOTS * _ROUNDS
    say(f"{count} jobs of {job_s:.0f} s, nodes: {nodes}")
    mark = ground.mark()
    marks = ground.folder / mark
    marks.mkdir()
    grid = ",".join(map(str, range(count)))
    words = ["--script", str(JOB), "--set", f"x={grid}", "--nodes", f"local:{nodes}", "--cpu", str(_SLOTS)]
    args = ["--headless", "--name", mark, "--", "--marks", str(marks), "--s", str(job_s), "--value", "{x}"]
    gmg = [sys.executable, "-m", "gmg_tui", "sweep"]
    subprocess.run([*gmg, *words, *args], env=ground.env(), check=True, stdout=subprocess.DEVNULL)
    seen = [json.loads(path.read_text()) for path in marks.iterdir()]
    assert len(seen) == count
    took_s: float = max(one["ended"] for one in seen) - min(one["began"] for one in seen)
    return 3600 * count / took_s


def _keys(keys_s: list[float]) -> str:
    return f"{1000 * quantile(keys_s, 0.5):.0f} / {1000 * max(keys_s):.0f} ms"


def _options(nodes: int, name: str) -> list[str]:
    return ["--nodes", "ssh:" + ",".join(f"h{number:03}" for number in range(nodes)), "--detach", "--name", name]


def _env(ground: Ground, mark: str) -> dict[str, str]:
    return ground.env() | {usage.MARK: mark, "GMG_SSH": f"{sys.executable} {AGENT}"}


def _watched(ground: Ground, nodes: int, for_s: float) -> Watched:
    say(f"{nodes} nodes")
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


def _job_ms(ground: Ground, nodes: int, each: int) -> float:
    """The engine's CPU for each of so many jobs on every slot, milliseconds."""
    count = nodes * CARDS * each
    say(f"{count} jobs")
    mark = ground.mark()
    env, gmg = _env(ground, mark), [sys.executable, "-m", "gmg_tui"]
    grid = ",".join(map(str, range(count)))
    words = ["--script", str(JOB), "--set", f"x={grid}", *_options(nodes, mark), "--", "--s", "5", "--value", "{x}"]
    try:
        subprocess.run([*gmg, "sweep", *words], env=env, check=True, stdout=subprocess.DEVNULL)
        time.sleep(1)
        folder = ground.folder / "state" / "gmg-tui" / "sessions" / mark
        used_s = 0.0
        while json.loads((folder / "session.json").read_text()).get("ended") is None:
            parts = usage.usage(mark, is_light).parts.values()
            used_s = max([used_s, *(part.cpu_s for part in parts if part.name == "engine")])
            time.sleep(0.2)
        return 1000 * used_s / count
    finally:
        usage.end(mark)
