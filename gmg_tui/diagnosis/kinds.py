"""The table of alert kinds, with the severity of each and the function that finds its sign in the facts."""

import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from gmg_tui.diagnosis.facts import Facts, History
from gmg_tui.model import Alert, AlertAction, Phase, Severity, Sign, WorkerState, units
from gmg_tui.model.alert import by_urgency
from gmg_tui.model.curves import serious
from gmg_tui.model.states import SUSPENDED_S
from gmg_tui.model.text import one_line

_FULL_RAM_PCT = 90.0
_IDLE_GPU_PCT = 5.0
_MIN_LATE_SHARE, _MIN_LATE_S = 0.05, 120.0
"""Minimum delay beyond a deadline, as a share of the estimated time left and in seconds: estimates vary."""
_MIN_DONE_SHARE = 0.02
"""Minimum share of the work that must be done before the end can be estimated."""
_USUAL_THROTTLE = "power cap"
"""The throttle reason that is no problem: GPUs under full load run at their power cap for hours."""
_DONE_LINE = re.compile(
    r"(?:\[.{0,40}\]\s{0,3})?(?:all |(?:the )?(?:training|simulation|experiment|run) )?(?:is |has )?"
    r"(?:done|finished|completed?)(?: in [\d.:]{1,12} ?\w{0,10})?[.! ]{0,3}",
    re.IGNORECASE,
)
_MIN_SILENCE_AFTER_BAR_S, _MAX_SILENCE_AFTER_BAR_S = 600.0, 3600.0
"""A complete bar may only show that something was loaded, or the first epoch, unless a silence as long as the bar follows."""
_BUSY_CPU_PCT, _SILENCE_WHILE_BUSY_S = 20.0, 600.0
"""A script that uses this much of a core, or the GPU, may have reported the end of one part only, unless this silence follows."""


class Scope(Enum):
    """The lifetime of an alert."""

    LIVE = 1
    """Until the process ends."""
    ATTEMPT = 2
    """Beyond the end of the process, as the alert concerns the results."""
    SLOT = 3
    """As long as the slot exists, whatever runs on it."""


_MAX_TEXT_CHARS = 1000


class Kind(NamedTuple):
    """A kind of alert."""

    name: str
    severity: Severity
    meaning: str
    """The condition, for the manual."""
    find: Callable[[Facts, History], Sign | None] | None = None
    """The function that finds the sign; None if the sign is observed elsewhere."""
    scope: Scope = Scope.LIVE
    after_s: float = 0.0
    """The time that a sign must last before the alert is raised."""
    clear_s: float = 0.0
    """The time that a sign must be gone before the alert is cleared."""


def _find_node(facts: Facts, history: History) -> Sign | None:
    since = facts.worker.lost_since
    return Sign("node", "its node is lost", "its workers continue if it comes back", since=since) if since else None


def _find_gpu(facts: Facts, history: History) -> Sign | None:
    sample = facts.sample
    if sample is None:
        return None
    if sample.lost:
        return Sign(
            "gpu", f"GPU lost: {sample.error or 'the driver cannot reach it'}", "reset it, or reboot the machine"
        )
    if sample.error:
        duration = f" for {units.span(sample.age_s)}" if sample.silent else ""
        return Sign("gpu", f"{sample.error}{duration}", "`dmesg` may show the cause", Severity.WARNING)
    problems = sample.health.troubles if sample.health is not None else ()
    if not problems:
        return None
    severity = Severity.ERROR if problems[0].fatal else Severity.INFO  # the machine may be built with a slow link
    return Sign("gpu", "; ".join(problem.text for problem in problems), problems[0].advice, severity)


def _find_done(facts: Facts, history: History) -> Sign | None:
    progress, phase = facts.worker.newest.progress, facts.worker.phase
    is_complete = progress is not None and progress.is_complete
    has_said_so = _DONE_LINE.fullmatch(facts.newest_line or facts.worker.last_line) is not None
    is_saving = phase is Phase.SAVING or facts.is_writing
    if not (is_complete or has_said_so) or is_saving or facts.worker.state is WorkerState.STOPPING:
        return None
    quiet_s, newest = facts.monotonic_s - history.quiet_since, facts.worker.newest
    bar_s = facts.now - quiet_s - newest.started - (newest.start_s or 0.0)
    util_pct = facts.sample.gpu_util_pct if facts.sample is not None else None
    uses_cpu = (facts.worker.cpu_pct or 0.0) >= _BUSY_CPU_PCT or facts.is_starved
    is_busy = uses_cpu or (util_pct or 0.0) >= _IDLE_GPU_PCT
    silence_s = _SILENCE_WHILE_BUSY_S if is_busy else 1.0
    if facts.is_bar and not has_said_so:
        silence_s = min(max(bar_s, _MIN_SILENCE_AFTER_BAR_S), _MAX_SILENCE_AFTER_BAR_S)
    if quiet_s < silence_s:
        return None
    end = "100 % done" if is_complete else "the script has reported its end"
    return Sign("done", f"{end}, but the process has not ended", "x ends it; --on done=stop ends it as finished")


def _find_nan(facts: Facts, history: History) -> Sign | None:
    broken = serious(facts.broken)
    if not broken:
        return None
    name, first = broken[0]
    more = f" and {units.count(len(broken) - 1, 'other metric')}" if len(broken) > 1 else ""
    since_text = f" since {first.at}" if first.at else ""
    last = f"; last finite value {units.number(first.finite)}" if first.finite is not None else ""
    value = "NaN" if math.isnan(first.value) else "infinite"
    return Sign(
        "nan", f"{name}{more} {value}{since_text}{last}", "continue from an earlier checkpoint", since=first.since
    )


def _find_leak(facts: Facts, history: History) -> Sign | None:
    sample, room = facts.sample, facts.room
    free_mib = None
    if sample is not None and sample.memory_free_mib is not None:
        free_mib = sample.memory_free_mib
    elif sample is not None and sample.memory_total_mib is not None and sample.memory_used_mib is not None:
        free_mib = sample.memory_total_mib - sample.memory_used_mib
    if free_mib is not None:  # others may take and free memory at any moment
        free_mib += sum(process.memory_mib or 0.0 for process in facts.others)
    eta_s = facts.worker.newest.progress.eta_s if facts.worker.newest.progress is not None else None
    of_gpu = "VRAM of the GPU"
    forecasts = {
        "VRAM": history.vram.forecast(free_mib),
        "RAM": history.ram.forecast(room.limit_mib - room.used_mib if room is not None else None),
        of_gpu: history.gpu.forecast(free_mib) if facts.vram_mib is None else None,
    }
    for memory, forecast in forecasts.items() if facts.is_running else ():
        if forecast is not None and (eta_s is None or forecast.full_s < eta_s):
            text = f"{memory} full in {units.span(forecast.full_s)} (+{units.mib(forecast.mib_per_min)}/min)"
            if memory == of_gpu:  # which another user may fill: no action
                return Sign("leak", text, "it may be memory of another process", Severity.INFO)
            return Sign("leak", text, "look for objects that are never freed")
    return None


def _find_memory(facts: Facts, history: History) -> Sign | None:
    room = facts.room
    if room is None or not facts.is_live or 100 * room.used_mib < _FULL_RAM_PCT * room.limit_mib:
        return None
    share = units.rounded(100 * room.used_mib / room.limit_mib)
    text = f"RAM {share} % full: {units.mib(room.used_mib)} of {units.mib(room.limit_mib)} of the {room.owner}"
    return Sign("memory", text, "once it is full, the kernel kills a process")


def _find_deadline(facts: Facts, history: History) -> Sign | None:
    progress, limit = facts.worker.newest.progress, facts.limit
    if limit is None or progress is None or progress.eta_s is None or progress.done < _MIN_DONE_SHARE * progress.total:
        return None
    late_s = facts.now + progress.eta_s - limit.time
    if not facts.is_running or late_s < max(_MIN_LATE_S, _MIN_LATE_SHARE * progress.eta_s):
        return None
    text = f"ends {units.span(late_s)} after {limit.name}"
    return Sign("deadline", text, "save a checkpoint before then, or ask for more time")


def _find_idle(facts: Facts, history: History) -> Sign | None:
    util = facts.sample.gpu_util_pct if facts.sample is not None else None
    if util is None or util >= _IDLE_GPU_PCT or not facts.is_running or facts.worker.backend == "cpu":
        return None
    return Sign("idle", f"the GPU is at {units.rounded(util)} % while the worker is running", "press w to see why")


def _find_shared(facts: Facts, history: History) -> Sign | None:
    used_mib: dict[str, float] = {}
    for process in facts.others:
        user = process.user or f"PID {process.pid}"
        used_mib[user] = used_mib.get(user, 0.0) + (process.memory_mib or 0.0)
    users = ", ".join(f"{user}: {units.mib(mib)}" for user, mib in used_mib.items())
    text = f"{facts.worker.slot} is also used by {users}"
    return Sign("shared", text, "--gpus free selects GPUs that nobody else uses") if users else None


def _find_slow(facts: Facts, history: History) -> Sign | None:
    below_pct = facts.below_median_pct
    text = f"{below_pct or 0.0:.0f} % below the median of equal GPUs"
    return Sign("slow", text, "compare clocks, temperatures and neighbours") if below_pct is not None else None


def _find_throttled(facts: Facts, history: History) -> Sign | None:
    reasons = facts.sample.throttle if facts.sample is not None else None
    text = f"throttled: {', '.join(reasons or ())}"
    return Sign("throttled", text, "check the cooling") if {*(reasons or ())} - {_USUAL_THROTTLE} else None


_INFO, _WARNING, _ERROR = Severity
_LIVE, _ATTEMPT, _SLOT = Scope
KINDS = {
    kind.name: kind
    for kind in (
        Kind("node", _ERROR, "the node is lost", _find_node, _SLOT),
        Kind("gpu", _ERROR, "Xid, ECC, GPU lost, driver silent", _find_gpu, _SLOT),
        Kind("stuck", _ERROR, "no output, no step and no CPU time for `--stuck-after` seconds"),
        Kind("nan", _ERROR, "a reported metric is NaN or infinite", _find_nan, _ATTEMPT),
        Kind("overflow", _ERROR, "the simulator says that its results are wrong", scope=_ATTEMPT),
        Kind("unclean", _ERROR, "exit code 0 after an uncaught exception", scope=_ATTEMPT),
        Kind("collision", _ERROR, "two workers write the same file or folder", None, _ATTEMPT, clear_s=math.inf),
        Kind(
            "leak",
            _WARNING,
            "VRAM or RAM use grows steadily and will reach its limit",
            _find_leak,
            after_s=60,
            clear_s=60,
        ),
        Kind("checkpoint", _WARNING, "no checkpoint of earlier attempts can be read", scope=_ATTEMPT),
        Kind("memory", _WARNING, "RAM above 90 % of the machine or the cgroup", _find_memory, _ATTEMPT, 5, 30),
        Kind("done", _WARNING, "complete, but the process is still running 60 s later", _find_done, after_s=60),
        Kind("deadline", _WARNING, "a time limit comes before the end of the work", _find_deadline, _LIVE, 60, 60),
        Kind("misplaced", _WARNING, "the worker is running on a GPU other than its slot's", scope=_ATTEMPT),
        Kind("cpu", _WARNING, "the worker computes or renders on the CPU, not on its GPU", scope=_ATTEMPT),
        Kind("slow", _WARNING, "more than 3 % below the median of equal GPUs", _find_slow, after_s=5, clear_s=10),
        Kind("throttled", _WARNING, "the GPU is throttled by heat or power failure", _find_throttled, _LIVE, 2, 10),
        Kind("idle", _WARNING, "GPU below 5 % for 3 minutes while the worker is running", _find_idle, _LIVE, 180, 10),
        Kind("silent", _WARNING, "no rate is printed for far longer than usual, and no steps are counted"),
        Kind("output", _WARNING, "rates or results are printed that cannot be read", scope=_ATTEMPT),
        Kind("disk", _WARNING, "the disk is full or hangs", scope=_ATTEMPT),
        Kind("internal", _WARNING, "an error of gmg-tui itself", scope=_ATTEMPT),
        Kind("leftover", _WARNING, "processes outlive the script", scope=_ATTEMPT),
        Kind("shared", _INFO, "others compute on its GPU too", _find_shared, after_s=3, clear_s=10),
        Kind("cache", _INFO, "Genesis' caches are locked, or were rebuilt", scope=_ATTEMPT),
        Kind("session", _INFO, "a signal, a notification or an option of the session"),
    )
}
"""The kinds by name, in display order among equally severe ones."""


def action_for(alert: Alert, actions: Mapping[str, AlertAction]) -> AlertAction:
    """Returns the action of `--on` for a new alert; one that needs no action, unlike others of its kind, gets none."""
    is_mild = alert.severity is Severity.INFO and KINDS[alert.kind].severity is not Severity.INFO
    return AlertAction.SHOW if is_mild else actions.get(alert.kind, AlertAction.SHOW)


_FINDERS = tuple((name, kind.find) for name, kind in KINDS.items() if kind.find is not None)
"""The names of the kinds that have a `find` function, with these functions."""
_SESSION_FINDERS = tuple((name, find) for name, find in _FINDERS if name in {"node", "slow", "deadline"})
"""The finders that only the session's engine can apply, as it knows the other nodes and the session's limits."""


def _is_new(alert: Alert, previous: Alert | None) -> bool:
    """True if there was no such alert before, or only one that needed no action."""
    return previous is None or (previous.severity is Severity.INFO and alert.severity is not Severity.INFO)


class Watch:
    """Raises and clears the alerts of an attempt, or of a slot without one.

    Attributes:
        alerts: The current alerts, worst first.
    """

    def __init__(self) -> None:
        self.alerts: tuple[Alert, ...] = ()
        self._history = History()
        self._first_seen: dict[str, float] = {}
        """The time when the current sign of each kind was first seen, monotonic seconds."""
        self._last_seen: dict[str, float] = {}
        """The time when a sign of each kind was last seen, monotonic seconds."""
        self._updated_at = math.inf
        """The time of the last update, monotonic seconds."""

    def update(self, facts: Facts) -> tuple[list[Alert], list[Alert]]:
        """Applies new facts. Returns the new alerts and the cleared ones."""
        pause_s, self._updated_at = facts.monotonic_s - self._updated_at, facts.monotonic_s
        if pause_s > SUSPENDED_S:
            self._history.quiet_since += pause_s
            self._first_seen = {name: at + pause_s for name, at in self._first_seen.items()}
        self._history.update(facts)
        signs = {sign.kind: sign for sign in reversed(facts.signs)}
        for name, find in _SESSION_FINDERS if facts.from_agent else _FINDERS:
            if name not in signs and (sign := find(facts, self._history)) is not None:
                signs[name] = sign
        previous = {alert.kind: alert for alert in self.alerts}
        if not (signs or previous or self._first_seen):
            return [], []
        names = {*signs, *previous, *self._first_seen}  # other kinds have neither sign nor alert
        kinds = (kind for name, kind in KINDS.items() if name in names)
        alerts = (self._alert(kind, facts, signs.get(kind.name), previous.get(kind.name)) for kind in kinds)
        self.alerts = by_urgency(alert for alert in alerts if alert is not None)
        raised = {alert.kind for alert in self.alerts}
        cleared = [alert for kind, alert in previous.items() if kind not in raised]
        return [alert for alert in self.alerts if _is_new(alert, previous.get(alert.kind))], cleared

    def _alert(self, kind: Kind, facts: Facts, sign: Sign | None, previous: Alert | None) -> Alert | None:
        """Returns the alert of a kind, raised, kept or updated; None if it is not raised yet, or is cleared."""
        applies, now_s = kind.scope is not Scope.LIVE or facts.is_live, facts.monotonic_s
        if sign is None or not applies:
            self._first_seen.pop(kind.name, None)
            gone_s = now_s - self._last_seen.get(kind.name, now_s)
            return previous if applies and gone_s < kind.clear_s else None
        seen_s = now_s - self._first_seen.setdefault(kind.name, now_s)
        self._last_seen[kind.name] = now_s
        observed_since = previous.since if previous is not None else facts.now - seen_s
        since = sign.since if sign.since is not None else observed_since
        if previous is None and sign.since is None and seen_s < kind.after_s:
            return None
        text, advice = (one_line(each)[:_MAX_TEXT_CHARS] for each in (sign.text, sign.advice))  # perhaps a node's
        return Alert(kind.name, sign.severity or kind.severity, text, since, advice)
