"""`tune`: find the best value of one number of a script's, measured on the slots."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from msgspec import structs

from gmg_tui import recovery, simulation
from gmg_tui.commands.messages import tell
from gmg_tui.commands.options import Checked, RunOptions, check_module, check_queued, check_script
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.commands.resume import changed_spec, check_place, found_session, prepare
from gmg_tui.commands.run import describe, start
from gmg_tui.commands.successors import conclude, jobs_of, with_store
from gmg_tui.errors import GmgError
from gmg_tui.genesis import placeholders
from gmg_tui.model import Goal, RunSpec, TuneSpec
from gmg_tui.sweep.checks import span_s

_VARIABLE = re.compile(rf"(?P<name>{placeholders.NAME.pattern})(=(?P<low>\d+)(\.\.(?P<high>\d*))?)?")
_LARGEST = 10**12
_FIXED = {
    "var": "--var",
    "metric": "--metric",
    "goal": "--goal",
    "same": "--same",
    "module": "-m",
    "gpus": "--gpus",
    "cpu": "--cpu",
    "name": "--name",
}
"""Options that define what is measured, which does not change."""
_FIELDS = {
    "headroom": "headroom_pct",
    "knee": "knee_pct",
    "settle": "settle_s",
    "trial_time": "trial_time_s",
    "trials": "trials",
    "budget": "budget_s",
}
"""Options that may change with `--resume`, and the field of `TuneSpec` of each."""


class TuneOptions(NamedTuple):
    """The options of `tune` beside those of `run`, as they were parsed."""

    var: str
    metric: str
    goal: str
    headroom: float
    knee: float
    settle: float
    trial_time: str
    trials: int
    budget: str | None
    same: bool


def tune(
    options: RunOptions,
    own: TuneOptions,
    engine: PrestartedEngine,
    script: str | None,
    args: tuple[str, ...],
    *,
    module: bool,
    own_options: tuple[str, ...] = (),
) -> int:
    """Have `engine` look for the best value of the number that `own` names.

    Returns:
        The exit status: 0 with an answer, 1 without one, 130 when the user stopped it.

    Raises:
        GmgError: An option is invalid, or the session cannot be started.
    """
    if options.simulate is not None:
        if script is not None:
            raise GmgError(f"--simulate runs the included script in Genesis's place; leave out {script}")
        script, args = str(simulation.SCRIPT), ("-B", f"{{{_asked(own).variable}}}")
    if script is None:
        raise GmgError("give a SCRIPT, as in `gmg-tui tune sim.py -B {n_envs}`, or --resume NAME")
    check_module(script) if module else check_script(script)
    checked = check_queued(options)
    asked = _asked(own)
    _check_used(asked.variable, args, checked, script)

    def make() -> RunSpec:
        spec = describe(options, checked, script, args, module=module, after="tune")
        return with_store(structs.replace(spec, tune=asked, sweep=jobs_of(spec, asked), own_options=own_options))

    return start(options, make, engine=engine, conclude=conclude)


def resume(name: str, options: RunOptions, own: TuneOptions, given: frozenset[str], script: str | None) -> int:
    """Go on with the tuning called `name`: trials that have ended count, all else is decided anew.

    The fields of `options` and `own` in `given` (what the command line has) replace the session's; a budget is that of
    the whole tuning. The exit status is that of `tune`.

    Raises:
        GmgError: There is no such tuning, it is running, or an option cannot be combined with `--resume`.
    """
    asked = _asked(own)
    checked = check_queued(options)
    recovery.clear(tell)
    spec = found_session(name).record.session.spec
    if spec.tune is None or spec.sweep is None:
        raise GmgError(f"--resume {name}: that is no tuning; `gmg-tui ls` lists the sessions")
    wrong = [option for field, option in _FIXED.items() if field in given] + ([] if script is None else [script])
    if wrong:
        raise GmgError(f"--resume {name}: what is measured, and where, cannot change; leave out {', '.join(wrong)}")
    check_place(spec, spec.sweep)
    changes = {field: getattr(asked, field) for option, field in _FIELDS.items() if option in given}
    tuned = structs.replace(spec.tune, **changes)
    spec = structs.replace(changed_spec(spec, options, checked, given), tune=tuned, sweep=jobs_of(spec, tuned))
    return start(options, lambda: prepare(spec), fresh=False, conclude=conclude)


def _asked(own: TuneOptions) -> TuneSpec:
    """What is looked for. Raises `GmgError` for an invalid option."""
    found = _VARIABLE.fullmatch(own.var)
    if found is None:
        raise GmgError(f"--var {own.var}: give NAME=LOW..HIGH, such as n_envs=64..65536; HIGH may be left out")
    name, low, high = found["name"], int(found["low"] or 64), int(found["high"]) if found["high"] else None
    if name in (*placeholders.NAMES, *placeholders.JOB_NAMES):
        raise GmgError(f"--var {own.var}: {{{name}}} has a meaning of its own; choose another name")
    if low < 1:
        raise GmgError(f"--var {own.var}: LOW must be at least 1")
    if high is not None and high < low:
        raise GmgError(f"--var {own.var}: HIGH ({high}) is less than LOW ({low})")
    if max(low, high or 0) > _LARGEST:
        raise GmgError(f"--var {own.var}: give numbers up to {_LARGEST:,}")
    _within("--headroom", own.headroom, 0, 90, " per cent")
    _within("--knee", own.knee, 0, 50, " per cent")
    _within("--settle", own.settle, 5, 3600, " seconds")
    _within("--trials", own.trials, 1, 1000, "")
    return TuneSpec(
        name,
        low,
        high,
        own.metric,
        Goal(own.goal),
        own.headroom,
        own.knee,
        own.settle,
        _time_s("--trial-time", own.trial_time),
        own.trials,
        _time_s("--budget", own.budget) if own.budget is not None else None,
        own.same,
    )


def _within(option: str, value: float, least: float, most: float, unit: str) -> None:
    if not least <= value <= most:
        raise GmgError(f"{option} {value:g}: give {least:g} to {most:g}{unit}")


def _time_s(option: str, text: str) -> float:
    seconds = span_s(text)
    if seconds is None or not 1 <= seconds < math.inf:
        raise GmgError(f"{option} {text}: give a time, such as 15m, 1h30m or 90 (seconds)")
    return seconds


def _check_used(name: str, args: tuple[str, ...], checked: Checked, script: str) -> None:
    """Raise `GmgError` unless the number stands somewhere in what the script gets."""
    texts = [*args, *checked.env.values()]
    if not any(name in placeholders.names_in(text) for text in texts):
        mark = f"{{{name}}}"
        raise GmgError(
            f"no {mark} in the script's arguments: write it where the number stands, as in "
            f"`gmg-tui tune {script} -B {mark}`"
        )
