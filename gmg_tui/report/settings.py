"""What a session ran with, as named texts that can be put beside another's."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from gmg_tui.model import NodesSpec, Session, Versions
from gmg_tui.options import COMPARED, RUN
from gmg_tui.report.data import ReportData

KINDS = ("script", "argument", "environment", "option", "hardware", "version")
_OPTION = re.compile(r"--?[A-Za-z]")
_FLAG = "yes"
"""The value of an option that has none."""


class Name(NamedTuple):
    """What a setting is called."""

    kind: str
    """One of `KINDS`."""
    name: str


Settings = dict[Name, str | None]
"""None stands for what is unknown or was not given."""


def settings(data: ReportData) -> Settings:
    """What a session ran with; empty where its engine wrote nothing."""
    session = data.session
    if session is None:
        return {}
    spec = session.spec
    batches = spec.sweep.batches if spec.sweep is not None else ()
    options = {f"--{opt.setting}": _text(getattr(spec, opt.spec_field)) for opt in RUN if COMPARED in opt.marks}
    if spec.tune is not None:
        options |= {f"tune {name}": _text(value) for name, value in structs.asdict(spec.tune).items()}
    if spec.sweep is not None and spec.sweep.file:
        options["experiments"] = Path(spec.sweep.file).name
    gpus = [slot.gpu for slot in session.slots if slot.gpu is not None]
    models = Counter(gpu.name for gpu in gpus)
    limits_w = sorted({gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None})
    installed = session.versions or Versions()
    kinds: dict[str, dict[str, str | None]] = {
        "script": {"script": " ".join(dict.fromkeys(batch.script or spec.script for batch in batches)) or spec.script},
        "argument": {**arguments(_words(data, session))},
        "environment": {
            name: value for env in (spec.env, *(batch.env for batch in batches)) for name, value in env.items()
        },
        "option": {**options, "slots": str(len(session.slots))},
        "hardware": {
            "host": spec.host or None,
            "GPU": _listed(f"{number} × {name}" for name, number in models.items()),
            "power limit": _listed(f"{limit:.0f} W" for limit in limits_w),
        },
        "version": {
            "gmg-tui": session.version or None,
            "Genesis": installed.genesis,
            "torch": installed.torch,
            "Python": installed.python,
            "driver": _listed(gpu.driver for gpu in gpus),
            "CUDA": _listed(gpu.cuda for gpu in gpus),
        },
    }
    return {Name(kind, name): value for kind, named in kinds.items() for name, value in named.items()}


def arguments(words: Sequence[str]) -> dict[str, str]:
    """A script's arguments by the names of its options; those without one are `arguments`.

    Which words are the values of options only the script defines: a word after an option counts as its value.
    """
    named: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if _OPTION.match(word):
            name, is_set, value = word.partition("=")
            named.setdefault(name, [])
            if is_set:
                named[name].append(value)
                name = ""
        else:
            named.setdefault(name or "arguments", []).append(word)
            name = ""
    return {name: shlex.join(values) if values else _FLAG for name, values in named.items()}


def _words(data: ReportData, session: Session) -> tuple[str, ...]:
    """The arguments that all workers had in the end; those of the command line where they differ, or in a sweep."""
    spec = session.spec
    if spec.sweep is not None:
        return tuple(word for batch in spec.sweep.batches for word in batch.args) or spec.args
    last = {attempts[-1].attempt.given for attempts in data.attempts.values() if attempts}
    return last.pop() if len(last) == 1 and not any("{" in word for word in spec.args) else spec.args


def _listed(values: Iterable[str | None]) -> str | None:
    """The distinct values without None."""
    return ", ".join(dict.fromkeys(value for value in values if value is not None)) or None


def _text(value: object) -> str | None:
    if isinstance(value, NodesSpec):
        return value.text
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return " ".join(f"{key}={each}" for key, each in plain.items()) or _FLAG
    return None if plain is None else str(plain)
