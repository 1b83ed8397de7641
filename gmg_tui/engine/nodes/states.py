"""The messages between a session's engine and a node's agent: a slot's attempt, and its progress.

Both are complete states: the next message makes up for a lost one, and repeating one changes nothing.
"""

import operator
import re
import sys
import time
from contextlib import suppress
from functools import lru_cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, structs

from gmg_tui import model
from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop, Task
from gmg_tui.engine.attempts.curves import MAX_NAMES as MAX_CURVES
from gmg_tui.engine.attempts.curves import MAX_VALUE
from gmg_tui.model import Alert, Checkpoint, GpuSample, Point
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.scripts.probe.counts import MAX_ENVIRONMENTS, MAX_RATE

MAX_PORTS = 8
"""Ports in a report; groups that need more wait for the next report."""
_MAX_ATTEMPTS = 4096


class Assignment(Struct, frozen=True, omit_defaults=True):
    """One attempt for a slot to run. The session's engine decides if another follows."""

    key: int
    """ID of the attempt, unique in the session. An assignment with another key replaces it."""
    task: Task
    """The task with this attempt's arguments, environment and number."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """The signals to pass on to the process, in order."""


class AttemptReport(Struct, frozen=True, omit_defaults=True):
    """An attempt at one moment; `key` is its assignment's."""

    key: int
    view: model.Worker
    result: Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)] = {}
    """The values reported by `gmg:result` lines."""
    activity: RankActivity | None = None
    """Only for a rank. Moments are seconds before the report."""
    outcome: Outcome | None = None
    """None before its end."""
    curves: Annotated[dict[str, model.Curve], Meta(max_length=MAX_CURVES)] = {}
    """Its metrics over time, sent at intervals and at its end; empty in other reports."""


class Report(Struct, frozen=True, omit_defaults=True):
    """All attempts of a node."""

    attempts: Annotated[tuple[AttemptReport, ...], Meta(max_length=_MAX_ATTEMPTS)] = ()
    address: Annotated[str, Meta(pattern=r"\A[\w.:%-]{0,255}\Z")] = ""
    """This machine's address for others; empty if unknown."""
    ports: Annotated[tuple[Annotated[int, Meta(gt=0, lt=1 << 16)], ...], Meta(max_length=MAX_PORTS)] = ()
    """Free ports, each for one group's rendezvous."""
    ended: bool = False
    """True if the agent was asked to end, and nothing runs."""


_T = TypeVar("_T")

MAX_BYTES = 4 << 20
"""Limit of an agent's message, excluding the parts for its slots."""
MAX_ANSWER_BYTES = 16 << 20
"""Limit of an answer."""
_MAX_AHEAD_S = 86_400.0
"""A node's clock may be ahead by this much; later moments are replaced by now."""
_MOMENTS = frozenset(
    {"time", "times", "since", "started", "ended", "saved", "state_since", "phase_since", "restart_at", "lost_since"}
)
_UNCHECKED = frozenset({"spec", "result", "args", "given", "env"})
"""The session's own options, texts, and results of scripts, which may be anything."""
_PATH = re.compile(r"/[^\0]*")
"""Path of a checkpoint, which is an argument for a script, maybe on another node."""
_DAY_S, _MAX_INT = 86_400, (1 << 63) - 1
_ANY = 0.0, 1e15
_PCT = 0.0, 120.0
_FPS = 0.0, MAX_RATE
_ENVIRONMENTS = 1.0, float(MAX_ENVIRONMENTS)
_STEPS = 0.0, 1e18
_SECONDS = -1e10, 1e10
_FINITE = -sys.float_info.max, sys.float_info.max
_RANGES = {
    **dict.fromkeys(("metrics", "values"), (-MAX_VALUE, MAX_VALUE)),
    **dict.fromkeys(_MOMENTS, _FINITE),
    **dict.fromkeys(("last", "mean", "max", "settled", "fps"), _FPS),
    **dict.fromkeys(("simulator", "learning", "rendering", "pct"), _PCT),
    **dict.fromkeys(("cpu_pct", "main_cpu_pct"), (0.0, 1e7)),
    "fan_pct": (0.0, 1e3),
    **dict.fromkeys(("s", "phase_started", "progress_at"), _SECONDS),
    **dict.fromkeys(("steps", "done", "total"), _STEPS),
    "envs": _ENVIRONMENTS,
    "mib": (0.0, 2.0**30),
    "w": (0.0, 1e6),
    "j": (0.0, 1e13),
    "c": (-300.0, 1e3),
    "mhz": (0.0, 1e6),
    "inode": (0.0, 2.0**64),
    "exit_code": (-64.0, 1e6),
    "numa_node": (-1.0, 1e4),
}
"""Range of plausible numbers, by a field's name or its last word, the unit."""


def received(message: _T, max_bytes: int = MAX_ANSWER_BYTES) -> _T:
    """Returns an agent's message without implausible values.

    Numbers that are not finite or not plausible become None, future moments now; unknown alerts are dropped.

    Raises `GmgError` if it is unusable or larger than `max_bytes`.
    """
    if (size := len(msgspec.json.encode(message))) > max_bytes:
        raise GmgError(f"its agent reports too much: {size:,} bytes", 1)
    kind: Any = type(message)
    now = time.time()
    with suppress(msgspec.MsgspecError, RecursionError):  # fast path: the limits in the type hold
        msgspec.convert(message, _limited_type(kind, now // _DAY_S), from_attributes=True)
        return message
    try:
        plausible = _plausible("", message, now)
        checked: _T = msgspec.json.decode(msgspec.json.encode(plausible), type=kind)
        return checked
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GmgError(f"its agent's report cannot be read: {error}", 1) from None


def _plausible(name: str, value: Any, now: float) -> Any:
    if type(value) is float or type(value) is int:
        low, high = _limits(name)
        if low <= value <= high:
            return value if name not in _MOMENTS or value <= now + _MAX_AHEAD_S else now
        return None
    if isinstance(value, Struct):
        return _plausible_struct(name, value, now)
    if isinstance(value, dict):
        own = _has_unit(name)
        fields = {key: _plausible(name if own else key, each, now) for key, each in value.items()}
        return fields if any(fields[key] is not each for key, each in value.items()) else value
    if not isinstance(value, tuple):
        return value
    kept = value
    if name == "alerts":
        kept = tuple(each for each in value if each.kind in KINDS)
    elif name == "checkpoints":
        kept = tuple(each for each in value if _PATH.fullmatch(each.path) is not None)
    names = ("time", "values", "values") if isinstance(value, Point) else (name,) * len(kept)
    parts = tuple(_plausible(part, each, now) for part, each in zip(names, kept, strict=True))
    return value if len(parts) == len(value) and all(map(operator.is_, parts, value)) else parts


def _plausible_struct(name: str, value: Struct, now: float) -> Struct | None:
    changes = {}
    for field in value.__struct_fields__:
        before = getattr(value, field)
        after = _plausible(field, before, now) if field not in _UNCHECKED else before
        if after is not before:
            changes[field] = after
    if name == "progress" and not changes.keys().isdisjoint({"done", "total"}):
        return None
    changed = structs.replace(value, **changes) if changes else value
    if isinstance(changed, GpuSample):
        try:
            _check_memory(changed)
        except ValueError:
            changed = structs.replace(changed, memory_used_mib=None)
    return changed


@lru_cache(256)
def _limits(name: str) -> tuple[float, float]:
    return _RANGES.get(name) or _RANGES.get(name.rpartition("_")[2], _ANY)


def _has_unit(name: str) -> bool:
    """Returns True for a mapping whose numbers have the unit in its name."""
    return name == "metrics" or name.endswith("_pct")


@lru_cache(64)
def _limited_type(kind: type, day: float) -> Any:
    return _limited("", kind, (day + 1) * _DAY_S)


def _limited(name: str, kind: Any, until: float) -> Any:
    """Returns a field's type with limits for numbers, and for moments `until`; None if it must be checked by hand."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is float or kind is int:
        low, high = _limits(name)
        high = until if name in _MOMENTS else high
        if kind is int:
            low, high = int(max(low, -_MAX_INT)), int(min(high, _MAX_INT))
        return Annotated[kind, Meta(ge=low, le=high)]
    if origin is Annotated:
        return _limited(name, args[0], until)
    if origin in (Union, UnionType):
        return Union[tuple(_limited(name, each, until) for each in args)]  # noqa: UP007 - their number varies
    if origin is dict:
        value = _limited(name, args[1], until) if args[1] is str or _has_unit(name) else None
        return GenericAlias(dict, (str, value))
    if origin is tuple:
        return GenericAlias(tuple, (_limited(name, args[0], until), ...))
    if not isinstance(kind, type) or not issubclass(kind, Struct):
        return None if isinstance(kind, type) and issubclass(kind, tuple) else kind
    types = {each.name: each.type for each in structs.fields(kind)}
    types |= {each: _limited(each, type_, until) for each, type_ in types.items() if each not in _UNCHECKED}
    if kind is Alert:
        types["kind"] = Literal[tuple(KINDS)]
    if kind is Checkpoint:
        types["path"] = Annotated[str, Meta(pattern=rf"\A{_PATH.pattern}\Z")]
    more = {"__post_init__": _check_memory} if kind is GpuSample else {}
    return msgspec.defstruct(kind.__name__, [(each, type_, None) for each, type_ in types.items()], namespace=more)


def _check_memory(sample: GpuSample) -> None:
    """Raises `ValueError` if more is used than there is."""
    used, total = sample.memory_used_mib, sample.memory_total_mib
    if used is not None and total is not None and used > total:
        raise ValueError
