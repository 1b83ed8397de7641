"""What a session ran with, as named texts that can be put beside another's."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from gmg_tui import units
from gmg_tui.model import Session, TuneSpec, Versions
from gmg_tui.report.data import ReportData

_OPTION = re.compile(r"--?[A-Za-z]")
_FLAG = "yes"
"""The value of an option that has none."""


class Name(NamedTuple):
    """What a setting is called."""

    kind: str
    """`script`, `argument`, `environment`, `option`, `hardware` or `version`."""
    name: str


def settings(data: ReportData) -> dict[Name, str | None]:
    """What a session ran with; None for what is not known or was not given. Empty where its engine wrote nothing."""
    session = data.session
    if session is None:
        return {}
    spec = session.spec
    batches = spec.sweep.batches if spec.sweep is not None else ()
    scripts = dict.fromkeys(batch.script or spec.script for batch in batches) or {spec.script: None}
    found: dict[Name, str | None] = {Name("script", "script"): " ".join(scripts)}
    found |= {Name("argument", name): value for name, value in arguments(_words(data, session)).items()}
    if spec.tune is None:
        found[Name("argument", "n_envs")] = _several(job.n_envs for job in data.jobs)
    env = dict(spec.env)
    for batch in batches:
        env |= batch.env
    found |= {Name("environment", key): value for key, value in env.items()}
    found |= {Name("option", name): value for name, value in _options(session).items()}
    return found | _hardware(session) | _versions(session)


def arguments(words: Sequence[str]) -> dict[str, str]:
    """A script's arguments by the names of its options; those without one are `arguments`.

    Which words are the values of options only the script knows: a word after an option counts as its value.
    """
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if _OPTION.match(word):
            name, is_set, value = word.partition("=")
            found.setdefault(name, [])
            if is_set:
                found[name].append(value)
                name = ""
        else:
            found.setdefault(name or "arguments", []).append(word)
            name = ""
    return {name: shlex.join(values) if values else _FLAG for name, values in found.items()}


def given(data: ReportData) -> dict[str, tuple[str, ...]]:
    """What the latest attempt of each job was given, by the job's name: placeholders of workers are not filled in."""
    found = {}
    for job in data.jobs:
        if (attempts := data.attempts.get(job.number)) and (metrics := attempts[-1].attempt.metrics) is not None:
            found[job.name] = metrics.args if metrics.given is None else metrics.given
    return found


def _words(data: ReportData, session: Session) -> tuple[str, ...]:
    """The arguments that all workers had in the end; those of the command line where they differ, or in a sweep."""
    spec = session.spec
    if spec.sweep is not None:
        return tuple(word for batch in spec.sweep.batches for word in batch.args) or spec.args
    last = set(given(data).values())
    return last.pop() if len(last) == 1 and not any("{" in word for word in spec.args) else spec.args


def _options(session: Session) -> dict[str, str | None]:
    spec = session.spec
    return {
        "--gpus": spec.gpus,
        "--cpu": _text(spec.cpu),
        "--simulate": _text(spec.simulate),
        "--python": spec.python,
        "--start": _text(spec.start),
        "--visible": _text(spec.visible),
        "--ddp": _text(spec.ddp),
        "--nodes": spec.nodes.text if spec.nodes is not None else None,
        **(_tuning(spec.tune) if spec.tune is not None else {}),
        "experiments": Path(spec.sweep.file).name if spec.sweep is not None and spec.sweep.file else None,
        "slots": str(len(session.slots)),
    }


def _tuning(spec: TuneSpec) -> dict[str, str | None]:
    """What a tuning looked for, and what its answer depends on."""
    high = "" if spec.high is None else str(spec.high)
    return {
        "tuned": spec.variable,
        "--var": f"{spec.variable}={spec.low}..{high}",
        "--metric": f"{spec.metric}, {spec.goal.value}",
        "--headroom": f"{spec.headroom_pct:g}",
        "--knee": f"{spec.knee_pct:g}",
        "--settle": f"{spec.settle_s:g}",
        "--trials": str(spec.trials),
        "--budget": None if spec.budget_s is None else units.span(spec.budget_s),
        "--same": _FLAG if spec.same else None,
    }


def _hardware(session: Session) -> dict[Name, str | None]:
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    return {
        Name("hardware", "host"): session.spec.host or None,
        Name("hardware", "GPU"): ", ".join(f"{number} × {name}" for name, number in models.items()) or None,
        Name("hardware", "power limit"): ", ".join(f"{limit:.0f} W" for limit in limits) or None,
    }


def _versions(session: Session) -> dict[Name, str | None]:
    installed = session.versions or Versions()
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    found = {
        "gmg-tui": session.version or None,
        "Genesis": installed.genesis,
        "torch": installed.torch,
        "Python": installed.python,
        "driver": _several(gpu.driver for gpu in gpus),
        "CUDA": _several(gpu.cuda for gpu in gpus),
    }
    return {Name("version", name): value for name, value in found.items()}


def _several(values: Iterable[object]) -> str | None:
    """The values that are known, each once."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None)) or None


def _text(value: object) -> str | None:
    if value is None:
        return None
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={each}" for key, each in plain.items()) or _FLAG
    return str(plain)
