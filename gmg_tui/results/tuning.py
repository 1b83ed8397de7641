"""`tune.json`: a tuning for other programs, and read back for a report. What is not known is null, never 0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from gmg_tui.errors import GmgError
from gmg_tui.files import open_regular, write_atomic
from gmg_tui.model import FPS, Answer, Goal, Trial, TuneSpec, Tuning
from gmg_tui.results.detailed import rounded
from gmg_tui.text import clean

TUNE: Final = "tune.json"
_MOST_BYTES: Final = 8 << 20
"""A file that is longer is none of ours."""
_MOST: Final = 1 << 62
"""A greater value is none."""
_ANSWERS: Final = ("fastest", "knee", "largest", "edge", "memory", "together")


class Recorded(Struct, frozen=True):
    """What `tune.json` says."""

    session: str | None
    script: str | None
    tuning: Tuning
    """Without what only a running search has: its step, its time left."""


class _File(Struct, frozen=True):
    """The file, as far as it is read."""

    variable: str
    trials: tuple[Trial, ...]
    metric: str = FPS
    goal: Goal = Goal.MAX
    session: str | None = None
    script: str | None = None
    models: tuple[Answer, ...] = ()
    command: tuple[str, ...] | None = None


def plain(
    tuning: Tuning, *, session: str | None = None, script: str | None = None, simulated: bool = False
) -> dict[str, Any]:
    """A tuning as plain data; the answer at the top is that of the most slots, and `models` has that of each model.

    Args:
        tuning: The tuning.
        session: The session's name.
        script: What was tuned, as given.
        simulated: Whether the GPUs were; said only where they were.
    """
    models = [_plain(answer) for answer in tuning.answers]
    first: dict[str, Any] = models[0] if models else {}
    return {
        "session": session,
        "script": script,
        **({"simulated": True} if simulated else {}),
        "variable": tuning.spec.variable,
        "metric": tuning.spec.metric,
        "goal": tuning.spec.goal.value,
        "trials": [_plain(trial) for trial in tuning.trials],
        **{name: first.get(name) for name in _ANSWERS},
        "command": list(tuning.command) or None,
        "models": models,
    }


def encoded(tuning: Tuning, *, session: str | None = None, script: str | None = None, simulated: bool = False) -> bytes:
    """The file's content, as for `plain`."""
    data = msgspec.json.encode(plain(tuning, session=session, script=script, simulated=simulated))
    return msgspec.json.format(data, indent=2) + b"\n"


def write(folder: Path, tuning: Tuning, *, session: str | None = None, script: str | None = None) -> None:
    """Write `tune.json` into the session's folder, whole or not at all. Raises `OSError`."""
    write_atomic(folder / TUNE, encoded(tuning, session=session, script=script))


def read(folder: Path) -> Recorded | None:
    """What a session's folder has, its texts made safe to show; None where nothing was tuned.

    Raises:
        GmgError: The file cannot be read, or is not what `write` wrote; one line.
    """
    path = folder / TUNE
    try:
        data = _content(path)
        if data is None:
            return None
        found = msgspec.convert(_safe(msgspec.json.decode(data)), type=_File)
    except OSError as error:
        raise GmgError(f"{path} cannot be read: {error.strerror}", 1) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GmgError(f"{path} is not a tuning: {error}", 1) from error
    if any(abs(value) > _MOST for value in _values(found)):
        raise GmgError(f"{path} is not a tuning: a value is out of range", 1)
    spec = TuneSpec(found.variable, low=_low(found), metric=found.metric, goal=found.goal)
    tuning = Tuning(spec, "", found.trials, found.models, command=found.command or ())
    return Recorded(found.session, found.script, tuning)


def _safe(data: Any) -> Any:
    """Plain data whose texts hold nothing that a terminal would interpret."""
    match data:
        case str():
            return clean(data.encode(errors="replace"))
        case list():
            return [_safe(one) for one in data]
        case dict():
            return {_safe(name): _safe(one) for name, one in data.items()}
    return data


def _content(path: Path) -> bytes | None:
    """All of a file; None where there is none."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"longer than {_MOST_BYTES:,} bytes")
    return data


def _values(found: _File) -> list[int]:
    """All values and numbers that it has."""
    values = [number for trial in found.trials for number in (trial.value, trial.number)]
    for answer in found.models:
        named = (answer.fastest, answer.knee, answer.largest, answer.edge, answer.together)
        values += [one.value for one in named if one is not None]
        values += [answer.memory.most] if answer.memory is not None and answer.memory.most is not None else []
    return values


def _low(found: _File) -> int:
    """The least value that was tried."""
    return min((trial.value for trial in found.trials if trial.value > 0), default=1)


def _plain(of: Struct) -> dict[str, Any]:
    """A struct with all its fields, those that are not known too; numbers with at most three decimals."""
    return {name: _value(value) for name, value in structs.asdict(of).items()}


def _value(value: Any) -> Any:
    if isinstance(value, Struct):
        return _plain(value)
    if isinstance(value, dict):
        return {name: _value(one) for name, one in value.items()}
    return rounded(value) if isinstance(value, float) else value
