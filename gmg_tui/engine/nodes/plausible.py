"""Removes implausible values from what a node's agent reports: it may be faulty, and what scripts print is in it."""

import math
import operator
import re
import sys
import time
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import islice
from types import NoneType
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct, structs

from gmg_tui import model
from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.engine.attempts.curves import MAX_CURVES, MAX_POINTS, MAX_VALUE
from gmg_tui.engine.nodes.states import MAX_ANSWER_BYTES, decode
from gmg_tui.machine.gpu.nvml_metrics import THROTTLE_REASONS
from gmg_tui.model import GpuSample, Point
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import one_line
from gmg_tui.scripts.probe.counts import MAX_ENVIRONMENTS, MAX_RATE
from gmg_tui.scripts.probe.site.gmg_reports import MAX_NAME_BYTES

_T = TypeVar("_T")

_MAX_CLOCK_LEAD_S = 86_400.0
"""A node's clock may be this far ahead; later times are replaced by the current time."""
_TIME_FIELDS = frozenset(
    {"time", "times", "since", "started", "ended", "saved", "state_since", "phase_since", "restart_at", "lost_since"}
)
_UNCHECKED_FIELDS = frozenset({"spec", "result", "args", "given", "env", "extra_env", "command"})
"""Fields that may have any value: the session's own options, command lines, and results of scripts."""
_MAX_TEXT_CHARS = 8192
"""Length limit of other texts, as of a line of output: clients get those of many jobs at once."""
_LINE_FIELDS, _MAX_LINE_CHARS = frozenset({"reason", "advice"}), 500
_CHECKPOINT_PATH = re.compile(r"/(?!/|(?:proc|sys)/)(?!(?:[^\0]*/)?\.{0,2}(?:/|\Z))[^\0]{0,1022}[^\0/]")
"""Valid checkpoint paths, without `..`, and none of the kernel's: they become arguments of scripts, perhaps on other nodes."""
_MAX_CHECKPOINT_BYTES = 1200
"""Size limit of a checkpoint's path and progress: checkpoints go with a job to other nodes."""
_MAX_ITEMS = 1024
_MAX_ITEMS_OF = {
    **dict.fromkeys(("alerts", "troubles", "xids", "processes", "throttle"), 64),
    **dict.fromkeys(("checkpoints", "samples", "workers", "groups", "nodes", "occurred"), 256),
    "attempts": 1,
    "metrics": MAX_CURVES,
}
"""Length limits of lists and mappings, by a field's name; of others, `_MAX_ITEMS`. The rest is dropped."""
_DEFAULT_RANGE = 0.0, 1e15
_MIN_AMOUNT = 1e-30
"""Smaller amounts, if not 0, overflow in ratios."""
_PCT_RANGE = 0.0, 120.0
_FPS_RANGE = 0.0, MAX_RATE
_ENVS_RANGE = 1.0, float(MAX_ENVIRONMENTS)
_MAX_STEPS = 10**18
_STEPS_RANGE = 0.0, float(_MAX_STEPS)
_SECONDS_RANGE = -1e10, 1e10
_FINITE_RANGE = -sys.float_info.max, sys.float_info.max
_RANGES = {
    **dict.fromkeys(("metrics", "values"), (-MAX_VALUE, MAX_VALUE)),
    **dict.fromkeys(_TIME_FIELDS, _FINITE_RANGE),
    **dict.fromkeys(("last", "mean", "max", "settled", "fps"), _FPS_RANGE),
    **dict.fromkeys(("simulator", "learning", "rendering", "pct"), _PCT_RANGE),
    **dict.fromkeys(("cpu_pct", "main_cpu_pct"), (0.0, 1e7)),
    "fan_pct": (0.0, 1e3),
    **dict.fromkeys(("s", "phase_started", "progress_at"), _SECONDS_RANGE),
    **dict.fromkeys(("steps", "done", "total"), _STEPS_RANGE),
    "envs": _ENVS_RANGE,
    "mib": (0.0, 2.0**30),
    "w": (0.0, 1e6),
    "j": (0.0, 1e13),
    "c": (-300.0, 1e3),
    "mhz": (0.0, 1e6),
    **dict.fromkeys(("inode", "mtime_ns"), (0.0, 2.0**64)),
    "exit_code": (-64.0, 1e6),
    "numa_node": (-1.0, 1e4),
}
"""Plausible ranges of numbers, by a field's name or by its last word (the unit)."""


def sanitize(message: _T, max_bytes: int = MAX_ANSWER_BYTES) -> _T:
    """Returns an agent's message without implausible values.

    Implausible numbers become None or, where that is not allowed, their default; without one, what they belong to is
    dropped, such as a checkpoint. Times too far ahead become the current time. Unknown alerts and invalid checkpoints
    are dropped. Raises `GmgError` if the message is unusable or larger than `max_bytes`.
    """
    if (size := len(msgspec.json.encode(message))) > max_bytes:
        raise GmgError(f"its agent reports too much: {size:,} bytes", 1)
    try:
        plausible: _T = _sanitize_value("", message, time.time())
        if plausible is not message:  # a required value may have become None
            plausible = msgspec.msgpack.decode(msgspec.msgpack.encode(plausible), type=type(message))
        return plausible
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GmgError(f"its agent's report cannot be read: {error}", 1) from None


def _sanitize_value(name: str, value: Any, now: float) -> Any:
    if type(value) is str:
        text = value if len(value) <= _MAX_TEXT_CHARS else value[:_MAX_TEXT_CHARS]
        return one_line(text)[:_MAX_LINE_CHARS] if name in _LINE_FIELDS else text
    if type(value) is float or type(value) is int:
        low, high = _range_of(name)
        if low <= value <= high and not (low == 0.0 < value < _MIN_AMOUNT):
            return value if name not in _TIME_FIELDS or value <= now + _MAX_CLOCK_LEAD_S else now
        return None
    if isinstance(value, Struct):
        return _sanitize_struct(name, value, now)
    max_items = _MAX_ITEMS_OF.get(name, _MAX_ITEMS)
    if isinstance(value, dict):
        kept = value if len(value) <= max_items else dict(islice(value.items(), max_items))
        fields = {key: _sanitize_value(name if _has_range(name) else key, item, now) for key, item in kept.items()}
        if all(fields[key] is item for key, item in kept.items()):
            return kept
        return {key: item for key, item in fields.items() if item is not None or not isinstance(kept[key], Struct)}
    if not isinstance(value, tuple):
        return value
    valid = value[:max_items]
    if name == "alerts":
        valid = tuple(alert for alert in valid if alert.kind in KINDS)
    elif name == "throttle":
        valid = tuple(reason for reason in valid if reason in THROTTLE_REASONS)
    elif name == "checkpoints":
        valid = tuple(checkpoint for checkpoint in valid if _is_valid(checkpoint))
    names = ("time", "values", "values") if isinstance(value, Point) else (name,) * len(valid)
    items = tuple(_sanitize_value(item_name, item, now) for item_name, item in zip(names, valid, strict=True))
    if len(items) == len(value) and all(map(operator.is_, items, value)):
        return value
    return tuple(new for new, old in zip(items, valid, strict=True) if new is not None or not isinstance(old, Struct))


def _is_valid(checkpoint: model.Checkpoint) -> bool:
    size = len(f"{checkpoint.path}{checkpoint.progress or ''}".encode(errors="replace"))
    return size <= _MAX_CHECKPOINT_BYTES and _CHECKPOINT_PATH.fullmatch(checkpoint.path) is not None


def _sanitize_struct(name: str, value: Struct, now: float) -> Struct | None:
    changes = {}
    for field in value.__struct_fields__:
        old = getattr(value, field)
        if field not in _UNCHECKED_FIELDS and (new := _sanitize_value(field, old, now)) is not old:
            new = _default(type(value), field) if new is None else new
            if new is msgspec.NODEFAULT:
                return None
            changes[field] = new
    if name == "progress" and not changes.keys().isdisjoint({"done", "total"}):
        return None
    changed = structs.replace(value, **changes) if changes else value
    if isinstance(changed, GpuSample) and (changed.memory_used_mib or 0.0) > (changed.memory_total_mib or math.inf):
        changed = structs.replace(changed, memory_used_mib=None)
    return changed


@cache
def _default(kind: type[Struct], name: str) -> Any:
    """Returns what stands for a missing value of a field: None if that is allowed, else its default or `NODEFAULT`."""
    field = next(field for field in structs.fields(kind) if field.name == name)
    return None if NoneType in get_args(field.type) else field.default


@lru_cache(256)
def _range_of(name: str) -> tuple[float, float]:
    return _RANGES.get(name) or _RANGES.get(name.rpartition("_")[2], _DEFAULT_RANGE)


def _has_range(name: str) -> bool:
    """Returns True if a mapping's own name, rather than its keys, determines the range of its numbers."""
    return name == "metrics" or name.endswith("_pct")


def decode_curves(data: bytes) -> dict[str, model.Curve]:
    """Returns the metrics of a `SlotReport.curves`, like `sanitize_curves`. Raises `GmgError`, also if unreadable."""
    return sanitize_curves(decode(data, dict[str, model.Curve])) if data else {}


def check_curves(data: bytes) -> None:
    """Raises `GmgError` if the metrics of a `SlotReport.curves` cannot be read or are too many."""
    if data:
        _check_count(decode(data, dict[str, model.Curve]))


def sanitize_curves(curves: Mapping[str, model.Curve]) -> dict[str, model.Curve]:
    """Returns an agent's metrics over time, by name, without implausible values. Raises `GmgError` if it has too many."""
    _check_count(curves)
    now = time.time()
    return {name: _sanitize_curve(curve, now) for name, curve in curves.items()}


def _check_count(curves: Mapping[str, model.Curve]) -> None:
    if len(curves) > MAX_CURVES or any(len(curve.times) > MAX_POINTS for curve in curves.values()):
        raise GmgError(f"its agent reports more than {MAX_CURVES} curves, or one of more than {MAX_POINTS} points", 1)


def _sanitize_curve(curve: model.Curve, now: float) -> model.Curve:
    # Like `_sanitize_value`, in comprehensions: a node may have millions of points.
    latest = now + _MAX_CLOCK_LEAD_S
    return structs.replace(
        curve,
        times=tuple([at if at <= latest else now for at in curve.times]),
        steps=tuple([step if step is not None and 0 <= step <= _MAX_STEPS else None for step in curve.steps]),
        values=tuple(
            [value if value is not None and -MAX_VALUE <= value <= MAX_VALUE else None for value in curve.values]
        ),
        lowest=_sanitize_point(curve.lowest, now),
        highest=_sanitize_point(curve.highest, now),
    )


def _sanitize_point(point: Point | None, now: float) -> Point | None:
    time, step, value = _sanitize_value("", point, now) if point is not None else (None, None, None)
    return Point(time, step, value) if time is not None and value is not None else None


def limit_age(alerts: Iterable[model.Alert], since: float) -> tuple[model.Alert, ...]:
    """Returns alerts, none of them older than `since`, Unix time."""
    return tuple(structs.replace(alert, since=max(alert.since, since)) for alert in alerts)


def limit_metrics(metrics: Mapping[str, float | None], names: set[str]) -> dict[str, float | None]:
    """Returns the metrics in `names`, and adds new names to it, as many and as long as scripts may have."""
    added = (name for name in metrics if name not in names and len(name) <= MAX_NAME_BYTES)
    names.update(islice(added, MAX_CURVES - len(names)))
    return {name: value for name, value in metrics.items() if name in names}
