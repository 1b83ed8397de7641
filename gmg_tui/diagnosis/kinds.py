"""The table of alert kinds: the severity of each, and the function that finds its sign in the facts."""

import math
import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from gmg_tui.diagnosis.facts import Facts, Past
from gmg_tui.model import Alert, Phase, Severity, Sign, WorkerState, units
from gmg_tui.model.alert import by_urgency
from gmg_tui.model.curves import Broken

_FULL_PCT = 90.0
_IDLE_PCT = 5.0
_LATE_SHARE, _LATE_S = 0.05, 120.0
"""A deadline must be missed by this share of the remaining time, and these seconds: estimates vary."""
_MIN_DONE = 0.02
"""Share of work done before its end can be estimated."""
_USUAL_CAP = "power cap"
"""GPUs under full load run at their power cap for hours."""
_SAID_DONE = re.compile(
    r"(?:\[.{0,40}\]\s{0,3})?(?:all |(?:the )?(?:training|simulation|experiment|run) )?(?:is |has )?"
    r"(?:done|finished|completed?)(?: in [\d.:]{1,12} ?\w{0,10})?[.! ]{0,3}",
    re.IGNORECASE,
)
_SHORT_BAR_S, _AFTER_BAR_S = 30.0, 300.0
"""A shorter bar may just load something: the silence after it may be longer."""
_VITAL = re.compile(r"loss|reward|return|grad|value|kl|action|obs", re.IGNORECASE)
"""Metrics that show that training has broken; others may be NaN for lack of data."""
_MAY_BE_NAN = re.compile(r"explained_var", re.IGNORECASE)
"""Metrics that are NaN in Stable-Baselines3 whenever all returns are equal."""


class Scope(Enum):
    """The lifetime of an alert."""

    LIVE = 1
    """As long as the process."""
    ATTEMPT = 2
    """Also after the process ends: it concerns the results."""
    SLOT = 3
    """As long as the slot, whatever runs on it."""


class Kind(NamedTuple):
    """A kind of alert."""

    name: str
    severity: Severity
    meaning: str
    """The condition, for the manual."""
    find: Callable[[Facts, Past], Sign | None] | None = None
    """Finds its sign; None if that is observed elsewhere."""
    scope: Scope = Scope.LIVE
    after_s: float = 0.0
    """Seconds a sign must last before the alert is raised."""
    clear_s: float = 0.0
    """Seconds a sign must be gone before the alert is cleared."""


def _node(facts: Facts, past: Past) -> Sign | None:
    since = facts.worker.lost_since
    return Sign("node", "its node is lost", "its workers continue if it comes back", since=since) if since else None


def _gpu(facts: Facts, past: Past) -> Sign | None:
    sample = facts.sample
    if sample is None:
        return None
    if sample.lost:
        return Sign(
            "gpu", f"GPU lost: {sample.error or 'the driver cannot reach it'}", "reset it, or reboot the machine"
        )
    if sample.error:
        lasts = f" for {units.span(sample.age_s)}" if sample.silent else ""
        return Sign("gpu", f"{sample.error}{lasts}", "`dmesg` may have the cause", Severity.WARNING)
    troubles = sample.health.troubles if sample.health is not None else ()
    if not troubles:
        return None
    severity = Severity.ERROR if troubles[0].fatal else Severity.INFO  # a slow link may be how the machine is built
    return Sign("gpu", "; ".join(trouble.text for trouble in troubles), troubles[0].advice, severity)


def _done(facts: Facts, past: Past) -> Sign | None:
    progress, phase = facts.worker.newest.progress, facts.worker.phase
    complete = progress is not None and 0 < progress.total <= progress.done
    said = _SAID_DONE.fullmatch(facts.newest_line or facts.worker.last_line) is not None
    if not (complete or said) or phase is Phase.SAVING or facts.worker.state is WorkerState.STOPPING:
        return None
    quiet_s, newest = facts.moment - past.quiet_since, facts.worker.newest
    bar_s = facts.now - quiet_s - newest.started - (newest.start_s or 0.0)
    if quiet_s < 1.0 or (facts.is_bar and not said and bar_s < _SHORT_BAR_S and quiet_s < _AFTER_BAR_S):
        return None
    what = "100 % done" if complete else "it has reported its end"
    return Sign("done", f"{what}, and the process has not ended", "x ends it; --on done=stop does so, as finished")


def _nan(facts: Facts, past: Past) -> Sign | None:
    broken = {name: each for name, each in facts.broken.items() if _matters(name, each)}
    if not broken:
        return None
    name, first = next(iter(broken.items()))
    more = f" and {units.count(len(broken) - 1, 'other metric')}" if len(broken) > 1 else ""
    at = f" since {first.at}" if first.at else ""
    last = f"; last finite value {units.number(first.finite)}" if first.finite is not None else ""
    value = "NaN" if math.isnan(first.value) else "infinite"
    return Sign("nan", f"{name}{more} {value}{at}{last}", "continue from an earlier checkpoint", since=first.since)


def _matters(name: str, broken: Broken) -> bool:
    if _MAY_BE_NAN.search(name) is not None:
        return False
    return "loss" in name.lower() or (broken.finite is not None and _VITAL.search(name) is not None)


def _leak(facts: Facts, past: Past) -> Sign | None:
    sample, room = facts.sample, facts.room
    free_mib = None
    if sample is not None and sample.memory_free_mib is not None:
        free_mib = sample.memory_free_mib
    elif sample is not None and sample.memory_total_mib is not None and sample.memory_used_mib is not None:
        free_mib = sample.memory_total_mib - sample.memory_used_mib
    left_s = facts.worker.newest.progress.eta_s if facts.worker.newest.progress is not None else None
    forecasts = [
        ("VRAM", past.vram.forecast(free_mib)),
        ("RAM", past.ram.forecast(room.limit_mib - room.used_mib if room is not None else None)),
    ]
    for what, forecast in forecasts if facts.is_running else ():
        if forecast is not None and (left_s is None or forecast.full_s < left_s):
            rate = f"+{units.mib(forecast.mib_per_min)}/min"
            return Sign(
                "leak", f"{what} full in {units.span(forecast.full_s)} ({rate})", "it grows steadily: find what is kept"
            )
    return None


def _memory(facts: Facts, past: Past) -> Sign | None:
    room = facts.room
    if room is None or not facts.is_live or 100 * room.used_mib < _FULL_PCT * room.limit_mib:
        return None
    share = units.whole(100 * room.used_mib / room.limit_mib)
    text = f"RAM {share} % full: {units.mib(room.used_mib)} of {units.mib(room.limit_mib)} of the {room.owner}"
    return Sign("memory", text, "the kernel kills a process once it is full")


def _deadline(facts: Facts, past: Past) -> Sign | None:
    progress, limit = facts.worker.newest.progress, facts.limit
    if limit is None or progress is None or progress.eta_s is None or progress.done < _MIN_DONE * progress.total:
        return None
    late_s = facts.now + progress.eta_s - limit.time
    if not facts.is_running or late_s < max(_LATE_S, _LATE_SHARE * progress.eta_s):
        return None
    return Sign(
        "deadline", f"ends {units.span(late_s)} after {limit.name}", "save a checkpoint before, or ask for more time"
    )


def _idle(facts: Facts, past: Past) -> Sign | None:
    util = facts.sample.gpu_util_pct if facts.sample is not None else None
    if util is None or util >= _IDLE_PCT or not facts.is_running or facts.worker.backend == "cpu":
        return None
    return Sign("idle", f"the GPU is at {units.whole(util)} % while the worker runs", "press w to see why")


def _shared(facts: Facts, past: Past) -> Sign | None:
    used_mib: dict[str, float] = {}
    for process in facts.others:
        user = process.user or f"PID {process.pid}"
        used_mib[user] = used_mib.get(user, 0.0) + (process.memory_mib or 0.0)
    by = ", ".join(f"{user}: {units.mib(mib)}" for user, mib in used_mib.items())
    text = f"{facts.worker.slot} is also used by {by}"
    return Sign("shared", text, "--gpus free takes GPUs that nobody uses") if by else None


def _slow(facts: Facts, past: Past) -> Sign | None:
    below_pct = facts.below_median_pct
    text = f"{below_pct or 0.0:.0f} % below the median of equal GPUs"
    return Sign("slow", text, "compare clocks, temperatures and neighbours") if below_pct is not None else None


def _throttled(facts: Facts, past: Past) -> Sign | None:
    reasons = facts.sample.throttle if facts.sample is not None else None
    text = f"throttled: {', '.join(reasons or ())}"
    return Sign("throttled", text, "check the cooling") if any(each != _USUAL_CAP for each in reasons or ()) else None


_INFO, _WARNING, _ERROR = Severity
_ATTEMPT, _SLOT = Scope.ATTEMPT, Scope.SLOT
KINDS = {
    kind.name: kind
    for kind in (
        Kind("node", _ERROR, "the node is lost", _node, _SLOT),
        Kind("gpu", _ERROR, "Xid, ECC, GPU lost, driver silent", _gpu, _SLOT),
        Kind("stuck", _ERROR, "no output, no step and no CPU time for `--stuck-after` seconds"),
        Kind("nan", _ERROR, "a reported metric is NaN or infinite", _nan, _ATTEMPT),
        Kind("overflow", _ERROR, "the simulator says that its results are wrong", scope=_ATTEMPT),
        Kind("unclean", _ERROR, "exit code 0 after an uncaught exception", scope=_ATTEMPT),
        Kind("collision", _ERROR, "two workers write the same file or folder", None, _ATTEMPT, clear_s=math.inf),
        Kind("leak", _WARNING, "VRAM or RAM grows steadily and will be full", _leak, clear_s=60),
        Kind("checkpoint", _WARNING, "no checkpoint of earlier attempts can be read", scope=_ATTEMPT),
        Kind("memory", _WARNING, "RAM above 90 % of the machine or the cgroup", _memory, _ATTEMPT, 5, 30),
        Kind("done", _WARNING, "the work is complete, and the process has not ended for 60 s", _done, after_s=60),
        Kind("deadline", _WARNING, "a time limit comes before the end of the work", _deadline, after_s=60, clear_s=60),
        Kind("misplaced", _WARNING, "it runs on another GPU than its slot's", scope=_ATTEMPT),
        Kind("cpu", _WARNING, "it computes or renders on the CPU, not on its GPU", scope=_ATTEMPT),
        Kind("slow", _WARNING, "more than 3 % below the median of equal GPUs", _slow, after_s=5, clear_s=10),
        Kind("throttled", _WARNING, "the GPU is throttled by heat or power failure", _throttled, after_s=2, clear_s=10),
        Kind(
            "idle", _WARNING, "the GPU is below 5 % for 3 minutes while the worker runs", _idle, after_s=180, clear_s=10
        ),
        Kind("silent", _WARNING, "no rate is printed for far longer than usual, and no steps are counted"),
        Kind("output", _WARNING, "rates or results are printed that cannot be read", scope=_ATTEMPT),
        Kind("disk", _WARNING, "the disk is full or hangs", scope=_ATTEMPT),
        Kind("internal", _WARNING, "an error of gmg-tui itself", scope=_ATTEMPT),
        Kind("leftover", _WARNING, "processes outlive the script", scope=_ATTEMPT),
        Kind("shared", _INFO, "others compute on its GPU too", _shared, after_s=3, clear_s=10),
        Kind("cache", _INFO, "Genesis' caches are locked, or were rebuilt", scope=_ATTEMPT),
        Kind("session", _INFO, "a signal, a notification or an option of the session"),
    )
}
"""Kinds by name, in display order among equally severe ones."""


_SOUGHT = tuple((name, kind.find) for name, kind in KINDS.items() if kind.find is not None)
"""Kinds whose signs are found here, with their functions."""
_OF_SESSION = tuple((name, find) for name, find in _SOUGHT if name in {"node", "slow", "deadline"})
"""Kinds that only the session's engine can judge: it knows the other nodes and the session's limits."""


class Watch:
    """The alerts of one attempt, or of a slot on which none has run.

    Attributes:
        alerts: The current alerts, worst first.
    """

    def __init__(self) -> None:
        self.alerts: tuple[Alert, ...] = ()
        self._past = Past()
        self._first: dict[str, float] = {}
        """Time at which the current sign of each kind was first seen, monotonic seconds."""
        self._last: dict[str, float] = {}
        """Time at which it was last seen."""

    def update(self, facts: Facts) -> tuple[list[Alert], list[Alert]]:
        """Applies new facts. Returns the new alerts and the cleared ones."""
        self._past.update(facts)
        signs = {sign.kind: sign for sign in reversed(facts.signs)}
        for name, find in _OF_SESSION if facts.from_agent else _SOUGHT:
            if name not in signs and (found := find(facts, self._past)) is not None:
                signs[name] = found
        before = {alert.kind: alert for alert in self.alerts}
        if not (signs or before or self._first):
            return [], []
        names = {*signs, *before, *self._first}  # all other kinds still have no alert
        judged = (
            self._judge(kind, facts, signs.get(name), before.get(name)) for name, kind in KINDS.items() if name in names
        )
        self.alerts = by_urgency(alert for alert in judged if alert is not None)
        now = {alert.kind for alert in self.alerts}
        over = [alert for kind, alert in before.items() if kind not in now]
        return [alert for alert in self.alerts if alert.kind not in before], over

    def _judge(self, kind: Kind, facts: Facts, sign: Sign | None, before: Alert | None) -> Alert | None:
        applies = kind.scope is not Scope.LIVE or facts.is_live
        if sign is None or not applies:
            self._first.pop(kind.name, None)
            over_s = facts.moment - self._last.get(kind.name, facts.moment)
            return before if applies and over_s < kind.clear_s else None
        lasts_s = facts.moment - self._first.setdefault(kind.name, facts.moment)
        self._last[kind.name] = facts.moment
        since = sign.since if sign.since is not None else before.since if before is not None else facts.now - lasts_s
        if before is None and sign.since is None and lasts_s < kind.after_s:
            return None
        return Alert(kind.name, sign.severity or kind.severity, sign.text, since, sign.advice)
