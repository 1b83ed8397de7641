"""Validates everything an agent sends: updates, reports and answers."""

import time
from typing import Any, TypeVar

import msgspec

from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.probe.counts import MAX_ENVIRONMENTS, MAX_RATE

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
_UNCHECKED = frozenset({"spec", "metrics", "values", "result", "args", "given", "env"})
"""Unchecked fields: the session's own options, texts, and numbers from scripts."""
_PLAIN = frozenset({str, bool, type(None)})
_ANY = 0.0, 1e15
_PCT = 0.0, 120.0
_FPS = 0.0, MAX_RATE
_ENVIRONMENTS = 1.0, float(MAX_ENVIRONMENTS)
_STEPS = 0.0, 1e18
_SECONDS = -1e10, 1e10
_RANGES = {
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
    data = msgspec.json.encode(message)
    if len(data) > max_bytes:
        raise GmgError(f"its agent reports too much: {len(data):,} bytes", 1)
    try:
        plain = _plausible("", msgspec.json.decode(data), time.time())
        return msgspec.convert(plain, type(message), str_keys=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GmgError(f"its agent's report cannot be read: {error}", 1) from None


def _plausible(name: str, value: Any, now: float) -> Any:
    """Returns a field's value, or a plausible replacement."""
    if isinstance(value, dict):
        return _plausible_fields(name, value, now)
    if isinstance(value, list):
        if name == "alerts":
            value = [each for each in value if each.get("kind") in KINDS]
        if name == "checkpoints":  # they become arguments, maybe on another node
            value = [each for each in value if each["path"].startswith("/") and "\0" not in each["path"]]
        if name in {"lowest", "highest"} and value:  # a `Point`, whose value may be anything
            return [_plausible("time", value[0], now), *value[1:]]
        return [_plausible(name, each, now) for each in value]
    if type(value) in _PLAIN:
        return value
    if name in _MOMENTS:
        return value if value <= now + _MAX_AHEAD_S else now
    low, high = _RANGES.get(name) or _RANGES.get(name.rpartition("_")[2], _ANY)
    return value if low <= value <= high else None


def _plausible_fields(name: str, fields: dict[str, Any], now: float) -> dict[str, Any] | None:
    inherited = name if name.endswith("_pct") else ""
    checked = {
        key: value if type(value) in _PLAIN or key in _UNCHECKED else _plausible(inherited or key, value, now)
        for key, value in fields.items()
    }
    used, total = checked.get("memory_used_mib"), checked.get("memory_total_mib")
    if used is not None and total is not None and used > total:
        checked["memory_used_mib"] = None
    if name == "progress" and None in (checked.get("done"), checked.get("total")):
        return None
    return checked
