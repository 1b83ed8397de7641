"""A tuning in words: what the screen, the reporter and the report say of it alike."""

from __future__ import annotations

from typing import Final

from gmg_tui import units
from gmg_tui.genesis.placeholders import fill_some
from gmg_tui.model import FPS, Answer, Best, Goal, RunSpec, Trial, TuneSpec

_SAME: Final = 0.005
"""Slots that differ by less than this share are the same."""


def unit(spec: TuneSpec) -> str:
    """The unit of the rates: `FPS`, or the metric's own name."""
    return "FPS" if spec.metric == FPS else spec.metric


def wanted(spec: TuneSpec) -> str:
    """What is looked for: `n_envs with the most FPS`."""
    return f"{spec.variable} with the {'most' if spec.goal is Goal.MAX else 'least'} {unit(spec)}"


def spread_pct(of: Trial | Best) -> float | None:
    """How far the farther end of the interval is from the rate, per cent; None where one of them is not known."""
    if not of.rate or of.rate_low is None or of.rate_high is None:
        return None
    return 100 * max(of.rate_high - of.rate, of.rate - of.rate_low) / abs(of.rate)


def spread(of: Trial | Best) -> str:
    """The interval as `±0.6 %`."""
    pct = spread_pct(of)
    return units.NOT_KNOWN if pct is None else f"±{pct:.1f} %"


def rate(value: float | None, spec: TuneSpec) -> str:
    """A rate in full, with its unit: `11,513,240 FPS`."""
    return f"{units.fps(value)} {unit(spec)}"


def per_watt(of: Trial | Best, spec: TuneSpec) -> float | None:
    """The rate for each watt; None where the least is wanted, and where one of them is not known."""
    return of.rate / of.power_w if spec.goal is Goal.MAX and of.rate is not None and of.power_w else None


def watt_unit(spec: TuneSpec) -> str:
    """The unit of `per_watt`."""
    return "FPS/W" if spec.metric == FPS else "per W"


def model(answer: Answer) -> str:
    """The name of the answer's GPUs without their vendor; `CPU` on the CPU."""
    return answer.model.removeprefix("NVIDIA ")


def values_of(answer: Answer, spec: TuneSpec) -> list[tuple[str, Best]]:
    """The values that are answers, with their names, as far as they are known."""
    first = "fastest" if spec.metric == FPS else "best"
    named = ((first, answer.fastest), ("knee", answer.knee), ("largest", answer.largest))
    return [(name, best) for name, best in named if best is not None]


def why_not_more(answer: Answer) -> str:
    """Why no greater value than the largest is an answer; empty where that is not known."""
    if answer.edge is not None:
        return f"{answer.edge.value:,} did not run: {answer.edge.reason}"
    if answer.memory is not None and answer.memory.most is not None:
        run = answer.largest.value if answer.largest is not None else 0
        return f"memory ends at {answer.memory.most:,}" if answer.memory.most >= run else "memory is nearly used up"
    return ""


def together(answer: Answer, spec: TuneSpec) -> str:
    """What the fastest value reaches on all slots at once; empty before that is measured."""
    of = answer.together
    if of is None:
        return ""
    alone = "" if of.of_alone_pct is None else f", {of.of_alone_pct:.1f} % of the same slots alone"
    slots = f" on {units.count(len(of.rates), 'slot')}" if of.rates else ""
    return f"{of.value:,}{slots}: {rate(of.rate, spec)}{alone}"


def factors(answer: Answer) -> str:
    """The slots that are not as fast as a usual one, the slowest first: `gpu5 −8.0 %  gpu2 +1.2 %`."""
    apart = sorted((factor, slot) for slot, factor in answer.factors.items() if abs(factor - 1) >= _SAME)
    return "  ".join(f"{slot} {'−' if factor < 1 else '+'}{100 * abs(factor - 1):.1f} %" for factor, slot in apart)


def caution(spec: TuneSpec) -> str:
    """What an answer does not say."""
    return f"{spec.variable} changes what is learned too, not only how fast."


def command(run: RunSpec, name: str, value: int) -> tuple[str, ...]:
    """The command line of the plain run that has `value` where a tuning has `{name}`."""
    slots = ["--cpu", str(run.cpu)] if run.cpu is not None else ["--gpus", run.gpus] if run.gpus else []
    if run.nodes is not None:
        slots = ["--nodes", run.nodes.text, *slots]
    env = [word for key, text in run.env.items() for word in ("--env", f"{key}={fill_some(text, {name: value})}")]
    args = [fill_some(text, {name: value}) for text in run.args]
    if run.simulate is not None:  # the demo has the script itself
        return ("gmg-tui", "demo", "--simulate", str(run.simulate), *slots, *env, *args)
    return ("gmg-tui", *slots, *env, *(["-m"] if run.module else []), run.script, *args)
