"""The messages between a session's engine and a node's agent: a slot's attempt, and its progress.

Both are complete states: the next message makes up for a lost one, and repeating one changes nothing.
"""

import math
import operator
import re
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from gmg_tui import model
from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop, Task
from gmg_tui.engine.attempts.curves import MAX_CURVES, MAX_POINTS, MAX_VALUE
from gmg_tui.model import GpuSample, Point
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.text import encoded
from gmg_tui.scripts.probe.counts import MAX_ENVIRONMENTS, MAX_RATE
from gmg_tui.session.store.database import encode, encode_nan, restore_nan

_T = TypeVar("_T")

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
    """A snapshot of an attempt; `key` is its assignment's."""

    key: int
    view: model.Worker
    activity: RankActivity | None = None
    """Only for a rank. Moments are relative to the report, in seconds: negative."""
    outcome: Outcome | None = None
    """None before its end."""


class SlotReport(Struct, frozen=True, omit_defaults=True):
    """The attempt of a slot, encoded: what an untrusted agent sends may cost far more memory than bytes once decoded."""

    attempt: bytes
    """An `AttemptReport` in MessagePack."""
    result: bytes = b"{}"
    """The values reported by `gmg:result` lines, as in the store."""
    curves: bytes = b""
    """Its metrics over time in MessagePack, sent at intervals and at its end; empty in other reports."""

    @classmethod
    def of(cls, attempt: AttemptReport, result: dict[str, Any], curves: dict[str, model.Curve]) -> Self:
        """Returns the report with its parts encoded."""
        parts = [encoded(msgspec.msgpack.encode, part) if part else b"" for part in (attempt, curves)]
        return cls(parts[0], encode(encode_nan(result)).encode(), parts[1])


def result_of(data: bytes) -> dict[str, Any]:
    """Returns the values in a report; none if they cannot be read."""
    with suppress(msgspec.MsgspecError, RecursionError):
        result: dict[str, Any] = restore_nan(msgspec.json.decode(data, type=_Result))
        return result
    return {}


def curves_of(data: bytes) -> dict[str, model.Curve]:
    """Returns the metrics over time in a report. Raises `GmgError` if they cannot be read, or have too many points."""
    curves = decoded(data, _Curves) if data else {}
    if any(len(curve.times) > MAX_POINTS for curve in curves.values()):
        raise GmgError("its agent reports too much: a curve of too many points", 1)
    return {name: received(curve) for name, curve in curves.items()}


def decoded(data: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    """Returns a part of an agent's report. Raises `GmgError` if it cannot be read."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GmgError(f"its agent's report cannot be read: {error}", 1) from None


_Result = Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)]
_Curves = Annotated[dict[str, model.Curve], Meta(max_length=MAX_CURVES)]


class Report(Struct, frozen=True, omit_defaults=True):
    """All attempts of a node, by slot."""

    attempts: Annotated[dict[str, SlotReport], Meta(max_length=_MAX_ATTEMPTS)] = {}
    address: Annotated[str, Meta(pattern=r"\A[\w.:%-]{0,255}\Z")] = ""
    """This machine's address for others; empty if unknown."""
    ports: Annotated[tuple[Annotated[int, Meta(gt=0, lt=1 << 16)], ...], Meta(max_length=MAX_PORTS)] = ()
    """Free ports, each for one group's rendezvous."""
    ended: bool = False
    """True if the agent was asked to end, and nothing runs."""


MAX_BYTES = 4 << 20
"""Limit of an agent's message, excluding the parts for its slots."""
MAX_CURVES_BYTES = 4 << 20
"""An agent's message has no more curves after this."""
PART_LIMITS = {"attempt": MAX_BYTES, "result": 8 << 20, "curves": 2 * MAX_CURVES_BYTES}
"""Limits of the parts of one message, over all slots: attempts are in one snapshot, results are kept decoded."""
MAX_ANSWER_BYTES = 16 << 20
"""Limit of an answer."""
_MAX_AHEAD_S = 86_400.0
"""A node's clock may be ahead by this much; later moments are replaced by now."""
_MOMENTS = frozenset(
    {"time", "times", "since", "started", "ended", "saved", "state_since", "phase_since", "restart_at", "lost_since"}
)
_UNCHECKED = frozenset({"spec", "result", "args", "given", "env"})
"""The session's own options, texts, and results of scripts, which may be anything."""
_HARMLESS = frozenset({str, bool, type(None)})
"""Types of values that need no check."""
_PATH = re.compile(r"/[^\0]{0,4095}")
"""Path of a checkpoint, which is an argument for a script, maybe on another node."""
_MAX_PROGRESS = 200
"""Characters of a checkpoint's progress: checkpoints go with a job to other nodes, whose reports contain them."""
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
    try:
        plausible: _T = _plausible("", message, time.time())
        if plausible is not message:  # a required value may be missing now
            plausible = msgspec.json.decode(msgspec.json.encode(plausible), type=type(message))
        return plausible
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
        kept = tuple(each for each in value if _PATH.fullmatch(each.path) and len(each.progress or "") <= _MAX_PROGRESS)
    names = ("time", "values", "values") if isinstance(value, Point) else (name,) * len(kept)
    parts = tuple(_plausible(part, each, now) for part, each in zip(names, kept, strict=True))
    return value if len(parts) == len(value) and all(map(operator.is_, parts, value)) else parts


def _plausible_struct(name: str, value: Struct, now: float) -> Struct | None:
    changes = {}
    for field in value.__struct_fields__:
        if type(before := getattr(value, field)) in _HARMLESS or field in _UNCHECKED:
            continue
        if (after := _plausible(field, before, now)) is not before:
            changes[field] = after
    if name == "progress" and not changes.keys().isdisjoint({"done", "total"}):
        return None
    changed = structs.replace(value, **changes) if changes else value
    if isinstance(changed, GpuSample) and (changed.memory_used_mib or 0.0) > (changed.memory_total_mib or math.inf):
        changed = structs.replace(changed, memory_used_mib=None)
    return changed


@lru_cache(256)
def _limits(name: str) -> tuple[float, float]:
    return _RANGES.get(name) or _RANGES.get(name.rpartition("_")[2], _ANY)


def _has_unit(name: str) -> bool:
    """Returns True for a mapping whose numbers have the unit in its name."""
    return name == "metrics" or name.endswith("_pct")
