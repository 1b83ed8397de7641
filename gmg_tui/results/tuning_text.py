"""The texts and columns of a tuning run for all outputs."""

from collections.abc import Callable
from typing import Final, TypeVar

from gmg_tui.jobs.argument_placeholders import fill_some
from gmg_tui.model import FPS, Answer, Best, RunSpec, Together, Trial, TrialKind, TrialState, TuneSpec, Tuning, units
from gmg_tui.model.secrets import mask
from gmg_tui.results import column
from gmg_tui.results.column import Column

_MIN_DIFFERENCE: Final = 0.005
"""Minimum relative difference for which a slot is listed."""
_STEPS: Final = (TrialKind.LADDER, TrialKind.REFINE, TrialKind.COMMON, TrialKind.CONFIRM, TrialKind.TOGETHER)
"""The steps of a tuning run in order, by the kind of their trials."""
_Row = TypeVar("_Row")


def unit(spec: TuneSpec) -> str:
    """Returns the unit of the rates: `FPS`, or the metric's name."""
    return "FPS" if spec.metric == FPS else spec.metric


def margin(measured: Trial | Best | Together) -> str:
    """Formats the margin to append to a rate: ` ±0.6 %`; empty if unknown."""
    return "" if measured.margin_pct is None else f" ±{measured.margin_pct:.1f} %"


def rate(value: float | None, spec: TuneSpec) -> str:
    """Formats a rate in full, with its unit: `11,513,240 FPS`."""
    return f"{units.NOT_KNOWN if value is None else _rate_format(spec)(value)} {unit(spec)}"


def _rate_format(spec: TuneSpec) -> Callable[[float], str]:
    return units.fps if spec.metric == FPS else units.number


def named_values(answer: Answer, spec: TuneSpec) -> list[tuple[str, Best]]:
    """Returns the known values of an answer, each with its name."""
    fastest = "fastest" if spec.metric == FPS else "best"
    values = (("recommended", answer.recommended), (fastest, answer.fastest), ("largest", answer.largest))
    return [(name, best) for name, best in values if best is not None]


def limit(answer: Answer, spec: TuneSpec) -> str:
    """Returns the upper limit of the value, and its cause; empty if unknown, or if no value ran."""
    if answer.largest is None:
        return ""
    if answer.edge is not None:
        return f"{answer.edge.value:,} did not run: {answer.edge.reason}"
    fitting, largest = answer.memory.most if answer.memory is not None else None, answer.largest.value
    if spec.high is not None and (fitting is None or spec.high <= fitting):
        return f"{spec.high:,} (as given)"
    if fitting is None:
        return ""
    return f"{fitting:,} (memory)" if fitting >= largest else f"{largest:,} (memory is nearly full)"


def rate_together(answer: Answer, spec: TuneSpec) -> str:
    """Returns the rate of the recommended value on all slots at once; empty until that is measured."""
    together = answer.together
    if together is None:
        return ""
    alone_pct, slots = together.of_alone_pct, len(together.rates)
    share = "" if alone_pct is None or slots < 2 else f", {alone_pct:.1f} % of their rate alone"
    mean = "" if spec.metric == FPS or slots < 2 else " on average"
    rate_text = f"{rate(together.rate, spec)}{mean}{margin(together)}"
    return f"{together.value:,} on {units.count(slots, 'slot')}: {rate_text}{share}"


def factors(answer: Answer) -> str:
    """Lists the slots that are slower or faster than a typical one, the slowest first: `gpu5 −8.0 %  gpu2 +1.2 %`."""
    by_factor = sorted((factor, slot) for slot, factor in answer.factors.items() if abs(factor - 1) >= _MIN_DIFFERENCE)
    return "  ".join(f"{slot} {'−' if factor < 1 else '+'}{100 * abs(factor - 1):.1f} %" for factor, slot in by_factor)


def step_number(tuning: Tuning) -> str:
    """Returns the number of the current step: `step 3 of 5`; empty before the first and after the last."""
    running = [trial.kind for trial in tuning.trials if trial.state is TrialState.RUNNING]
    kinds = running or [trial.kind for trial in tuning.trials[-1:]]
    return f"step {min(map(_STEPS.index, kinds)) + 1} of {len(_STEPS)}" if kinds and not tuning.ended else ""


def incomplete_text(tuning: Tuning) -> str:
    """Returns the current step of a running tuning, or why and where it ended early; empty if it is complete."""
    if not tuning.ended:
        return f"not finished; step: {tuning.step}"
    return f"{tuning.step}; last step: {tuning.reached}" if tuning.reached else ""


def notes(answer: Answer, spec: TuneSpec) -> list[tuple[str, str]]:
    """Returns the notes on an answer, each with a heading."""
    known = [("limit", limit(answer, spec)), ("slots", factors(answer))]
    return [*((name, text) for name, text in known if text), *(("warning", warning) for warning in answer.warnings)]


def caution(spec: TuneSpec) -> str:
    """Returns the caution to show with every answer."""
    return f"{spec.variable} also affects what is learned, not just how fast."


def command(run: RunSpec, name: str, value: int) -> tuple[str, ...]:
    """Returns the command line of a plain run with a tuning's options, and `value` in place of its variable `name`."""
    words = ["--python", run.python] if run.python_given else []
    words += ["--nodes", run.nodes.where] if run.nodes is not None else []
    words += ["--cpu", str(run.cpu)] if run.cpu is not None else ["--gpus", run.gpus] if run.gpus else []
    env = {key: fill_some(text, {name: value}) for key, text in mask(run.env).items()}
    words += [word for key, text in env.items() for word in ("--env", f"{key}={text}")]
    words += [word for pattern in run.patterns for word in ("--pattern", pattern)]
    words += [] if run.probe else ["--no-probe"]
    args = [fill_some(text, {name: value}) for text in run.args]
    if run.simulate is not None:  # the demo brings its own script
        return ("gmg-tui", "demo", "--simulate", str(run.simulate), *words, "--", *args)
    return ("gmg-tui", *words, *(["-m"] if run.module else []), run.script, *args)


def answer_columns(spec: TuneSpec) -> list[Column[tuple[str, Best]]]:
    """Returns the columns of a table of `named_values`."""
    figures: list[Column[tuple[str, Best]]] = _figure_columns(spec, lambda row: row[1])
    value = Column[tuple[str, Best]]("value", lambda row: row[1].value, spec.variable)
    return [Column("answer", lambda row: row[0], align_left=True), value, *figures]


def columns(spec: TuneSpec) -> list[Column[Trial]]:
    """Returns the columns of a table of trials."""
    figures: list[Column[Trial]] = _figure_columns(spec, lambda trial: trial)
    return [
        Column("number", lambda trial: trial.number, "#", priority=40),
        Column("value", lambda trial: trial.value, spec.variable, priority=100),
        Column("slot", lambda trial: trial.slot, priority=90, align_left=True),
        Column("kind", lambda trial: trial.kind.value, "for", priority=50, align_left=True),
        Column("state", lambda trial: trial.state.value, priority=80, align_left=True),
        *figures,
        Column("start_s", lambda trial: trial.start_s, "start", write=units.span, priority=10),
        Column("measured_s", lambda trial: trial.measured_s, "measured", write=units.span, priority=10),
        Column("reason", lambda trial: trial.reason, priority=60, align_left=True),
    ]


def _figure_columns(spec: TuneSpec, get: Callable[[_Row], Trial | Best]) -> list[Column[_Row]]:
    """Returns the columns with the figures of a trial, or of all trials of a value; `get` returns them for a row."""

    def rate_per_watt(row: _Row) -> float | None:
        rate, power_w = get(row).rate, get(row).power_w
        return rate / power_w if rate is not None and power_w else None

    return [
        Column("rate", lambda row: get(row).rate, unit(spec), "", _rate_format(spec), 100),
        Column("margin_pct", lambda row: get(row).margin_pct, "±", write=lambda pct: f"{pct:.1f} %", priority=90),
        Column("memory_mib", lambda row: get(row).memory_mib, *column.VRAM, 70),
        Column("gpu_util_pct", lambda row: get(row).gpu_util_pct, *column.GPU, 30),
        Column("power_w", lambda row: get(row).power_w, *column.POWER, 30),
        Column(
            "rate_per_w", rate_per_watt, f"{unit(spec)}/W", "", units.short if spec.metric == FPS else units.number, 20
        ),
    ]
