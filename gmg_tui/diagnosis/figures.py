"""The figures behind a verdict, as texts."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from gmg_tui.model import GpuSample, HotSpot, Load, SpeedFacts, units


def pct(value: float | None) -> str:
    """Formats a percentage; an unknown one as 0."""
    return f"{value or 0.0:.0f} %"


def load_of(facts: SpeedFacts) -> Load:
    """Returns the load of the worker's processes; an empty one if unknown."""
    return facts.load or Load()


def sample_of(facts: SpeedFacts) -> GpuSample:
    """Returns the sample of the worker's GPU; an empty one if unknown."""
    return facts.sample or GpuSample("")


def coreless_pct(facts: SpeedFacts) -> float:
    """Returns the percentage of the time in which the main thread was ready to run but had no core."""
    load = load_of(facts)
    return max(min(100.0, load.main_delay_pct or 0.0), (load.ready_pct or 0.0) - (load.main_cpu_pct or 0.0))


def evidence(facts: SpeedFacts) -> Iterator[str]:
    """Yields the figures, most telling first; those of an ended attempt are as recorded."""
    if not facts.state.live:
        if facts.recorded is not None:
            yield f"its last attempt: {facts.recorded.text}"
            yield from facts.recorded.evidence
        return
    load, shares, spot = load_of(facts), facts.shares, facts.hot_spot
    if shares is not None:
        yield "time: " + ", ".join(f"{name} {pct(share)}" for name, share in shares.by_name.items() if share >= 1)
    if load.main_cpu_pct is not None:
        yield f"main thread {pct(load.main_cpu_pct)} of a core"
    if facts.gpu_util_pct is not None:
        yield f"GPU {pct(facts.gpu_util_pct)}" + (f" (SM {pct(facts.sm_pct)})" if facts.sm_pct is not None else "")
    if spot is not None:
        yield f"{pct(spot.share_pct)} of the script's time in {spot.function} ({PurePath(spot.file).name}:{spot.line})"
    if facts.n_envs is not None:
        tuned = f" (tuned: {facts.tuned_envs:,})" if facts.tuned_envs is not None else ""
        yield f"{units.count(facts.n_envs, 'environment')}{tuned}"
    yield from _load_figures(load, coreless_pct(facts))
    if waits := [f"{name} {pct(share)}" for name, share in load.waits_pct.items() if share >= 10]:
        yield f"waiting: {', '.join(waits)}"
    sample = sample_of(facts)
    if sample.throttle:
        yield f"clocks limited by {', '.join(sample.throttle)}"
    if sample.power_w is not None and sample.power_limit_w is not None:
        yield f"{sample.power_w:.0f} of {sample.power_limit_w:.0f} W"
    if facts.sharers:
        yield f"also on its GPU: {', '.join(facts.sharers)}"


def _load_figures(load: Load, coreless_pct: float) -> Iterator[str]:
    if load.cpu_pct is not None and load.cores is not None:
        yield f"CPU {pct(load.cpu_pct)} of {100 * load.cores:.0f} % by {units.count(load.threads or 0, 'thread')}"
    if coreless_pct >= 10:
        yield f"runnable without a core {pct(coreless_pct)}"
    if load.throttled_pct:
        yield f"quota used up in {pct(load.throttled_pct)} of the periods"
    if load.swap_mib:
        yield f"{units.mib(load.swap_mib)} in swap"


_STACK = re.compile(r"^Current thread .*\n((?:  .*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.{1,4096})", line (\d{1,9}) in (.{1,200})', re.MULTILINE)
"""Cuts longer names, which only a script that writes stacks of its own can have."""
_LIBRARY = re.compile(r"^<|/(?:site|dist)-packages/|/lib/python3|/gmg_(?:probe|reports)\.py$")
_PROBE = re.compile(r"/gmg_probe\.py$")
"""The probe's file; its function `step` wraps the simulator's."""


def find_hot_spot(text: str) -> HotSpot | None:
    """Returns the script's function that is innermost in most of the stacks that `faulthandler` printed.

    Ignores stacks within a simulator step; returns None if no other stack contains a function of the script.
    """
    stacks = [_FRAME.findall(stack) for stack in _STACK.findall(text)]
    outside = [stack for stack in stacks if not any(name == "step" and _PROBE.search(file) for file, _, name in stack)]
    innermost = [next((frame for frame in stack if _LIBRARY.search(frame[0]) is None), None) for stack in outside]
    frames = [frame for frame in innermost if frame is not None]
    counts = Counter((file, function) for file, _, function in frames)
    if not counts:
        return None
    ((file, function), count), *_ = counts.most_common(1)
    lines = Counter(int(line) for other_file, line, name in frames if (other_file, name) == (file, function))
    name = "the script itself" if function == "<module>" else function
    stepping_pct = 100 * (1 - len(outside) / len(stacks))
    return HotSpot(name, file, lines.most_common(1)[0][0], 100 * count / len(outside), len(outside), stepping_pct)
