"""Texts and styles for a worker: its state, phase, progress and problems."""

from collections.abc import Sequence

from gmg_tui.jobs.argument_placeholders import as_text
from gmg_tui.model import JobRecord, Phase, Severity, Slot, Worker, WorkerState, units
from gmg_tui.model.text import SEPARATOR
from gmg_tui.scripts.genesis.output.log_text import without_head
from gmg_tui.ui.drawing import STATE_SYMBOLS, Piece
from gmg_tui.ui.slots import SlotView, in_trouble, job_of

STATE_STYLES = dict.fromkeys(WorkerState, "title") | {
    WorkerState.RUNNING: "ok",
    WorkerState.FINISHED: "ok",
    WorkerState.FAILED: "error",
    WorkerState.STOPPING: "warn",
    WorkerState.RESTARTING: "warn",
    WorkerState.STOPPED: "dim",
    WorkerState.WAITING: "dim",
}

ALERT_STYLES = {Severity.ERROR: "error", Severity.WARNING: "warn", Severity.INFO: "dim"}
_KINDS_SHOWN_ELSEWHERE = frozenset({"node", "silent"})
"""Kinds of alerts that the state, or the note on the rate, already shows."""
IN_RANK_0 = "counted in rank 0"
"""The text for a rank whose environment steps are reported by rank 0."""


def symbol_of(entry: SlotView) -> str:
    """Returns the symbol of the worker's state, or a warning sign for a live worker with a problem."""
    return "⚠" if _problem_style(entry) else STATE_SYMBOLS[entry.worker.state]


def style_of(entry: SlotView) -> str:
    """Returns the style of the worker's state, or of its problem."""
    return _problem_style(entry) or STATE_STYLES[entry.worker.state]


def _problem_style(entry: SlotView) -> str:
    """Returns the style for a problem of a live worker, such as an alert; empty if it has none."""
    worker = entry.worker
    if worker.stuck or worker.lost_since is not None:
        return "error"
    return "warn" if STATE_STYLES[worker.state] == "ok" and in_trouble(entry) else ""


def state_of(worker: Worker) -> str:
    """Returns the worker's state in words: `running`, `saving`, `STUCK compiling`, `lost`."""
    stuck = worker.stuck and worker.lost_since is None
    return f"STUCK {worker.state.value}" if stuck else worker.state_word


def lost_s(entry: SlotView) -> float | None:
    """Returns the seconds since the worker's node was lost; None while the node is connected."""
    since = entry.worker.lost_since
    return None if since is None else max(0.0, entry.time - since)


def lost_text(since: float | None) -> str:
    """Returns `lost since 12:03:04`, in local time; empty if `since` is None."""
    return "" if since is None else f"lost since {units.time_of_day(since)}"


def is_getting_ready(worker: Worker) -> bool:
    """Returns True if the worker is in a phase before the first progress, which can be silent for minutes."""
    return worker.state.starting_up and worker.lost_since is None


def phase_of(worker: Worker) -> str:
    """Returns the worker's phase as read from its output, or its state if there is none."""
    return worker.phase.value if worker.phase is not Phase.NONE else worker.state.value


def phase_s(entry: SlotView) -> float:
    """Returns the seconds since the worker's phase began."""
    return entry.since_s(entry.worker.phase_since)


def state_s(entry: SlotView) -> float:
    """Returns the seconds since the state began; for an ended worker, the duration of the last attempt."""
    worker = entry.worker
    if worker.state.ended and worker.newest.ended is not None:
        return worker.newest.elapsed_s(entry.time)
    return entry.since_s(worker.state_since)


def usual_text(entry: SlotView) -> str:
    """Returns the usual duration of the phase: `usually 4:10, 1:29 left`; empty if unknown or below a second."""
    usual_s = entry.worker.phase_usual_s
    if usual_s is None or usual_s < 1:
        return ""
    return ", ".join(filter(None, (f"usually {units.span(usual_s)}", units.time_left(usual_s - phase_s(entry)))))


def rate_style(worker: Worker) -> str:
    """Returns the style of the worker's rate: current, final or out of date."""
    if worker.lost_since is not None:
        return "dim"
    if worker.state is not WorkerState.RUNNING:
        return "strong"
    return "fps" if worker.current_fps is not None else "dim"


def rate_note(entry: SlotView) -> Piece:
    """Returns the note on a rate, about its age or the ranks that it covers; an empty text if there is none."""
    worker = entry.worker
    silent = worker.alert("silent")
    if silent is not None:
        return f"{silent.text} for {units.span(entry.since_s(silent.since))}", "warn"
    if worker.newest.fps_of_group:
        return "FPS of all ranks", "text"
    if worker.fps_in_rank_0 and worker.fps is not None:
        return IN_RANK_0, "text"
    return "", "text"


def last_line(worker: Worker) -> str:
    """Returns the newest line of output without Genesis' prefix; empty for progress, which is shown as the rate."""
    line = worker.last_line
    if not line or line.startswith(SEPARATOR):
        return ""
    from gmg_tui.scripts.genesis.output import line_patterns  # not for the first frame

    return "" if line_patterns.is_progress_only(line) else without_head(line)


def values_of(job: JobRecord) -> str:
    """Returns the job's values that its name does not contain: `method=ode  branch_counts=4`."""
    in_name = job.name.split(",")
    return "  ".join(text for name, value in job.values.items() if (text := f"{name}={as_text(value)}") not in in_name)


def notes(entry: SlotView, *, advice: bool = True) -> list[Piece]:
    """Returns the problems of a worker and its GPU, worst first; with `advice`, also the ways to fix them."""
    worker, sample, texts = entry.worker, entry.sample, list[tuple[str | None, str]]()
    texts.append((lost_text(worker.lost_since), "error"))
    alerts = [
        (f"{alert.text}; {alert.advice}" if advice and alert.advice else alert.text, ALERT_STYLES[alert.severity])
        for alert in worker.alerts
        if alert.kind not in _KINDS_SHOWN_ELSEWHERE
    ]
    texts += [(text, style) for text, style in alerts if style == "error"]
    texts.append((worker.stopping, "warn"))
    if worker.state is WorkerState.RESTARTING and worker.restart_at is not None:
        delay = units.span(max(0.0, -entry.since_s(worker.restart_at)))
        texts.append((f"attempt {worker.attempt + 1} starts in {delay}", "warn"))
    waits = worker.state in {WorkerState.WAITING, WorkerState.RESTARTING} and (worker.reason or "").startswith("for ")
    failed = worker.state is WorkerState.FAILED
    texts.append((f"waiting {worker.reason}" if waits else worker.reason, "error" if failed else "text"))
    texts.append((worker.advice if advice else "", "text"))
    if sample is not None and sample.age_s is not None and not sample.silent:
        texts.append((f"GPU metrics are {units.span(sample.age_s)} old", "warn"))
    texts += [(text, style) for text, style in alerts if style != "error"]
    return [(text, style) for text, style in texts if text]


def progress_text(worker: Worker) -> str:
    """Returns the known progress: `312/1,500 iteration, 3:05 left, 10.2 iteration/s`; empty if none is known."""
    progress = worker.newest.progress
    if progress is None:
        return ""
    total = f"/{progress.total:,.0f}" if progress.total else ""
    remaining = "" if worker.state.ended else units.time_left(progress.eta_s)
    pace = f"{units.short(progress.pace_per_s)} {progress.unit}/s" if progress.pace_per_s is not None else ""
    return ", ".join(filter(None, (f"{progress.done:,.0f}{total} {progress.unit}".rstrip(), remaining, pace)))


def remarks(entry: SlotView, *, advice: bool = True) -> list[Piece]:
    """Returns all notes on a worker: problems, usual duration or progress, and the note on its rate."""
    worker, pieces = entry.worker, notes(entry, advice=advice)
    if is_getting_ready(worker):
        pieces.append((usual_text(entry), "title"))
    elif not worker.state.ended:
        pieces.append((progress_text(worker), "title"))
    pieces.append(rate_note(entry))
    return [piece for piece in pieces if piece[0]]


def matches(entry: SlotView, text: str) -> bool:
    """Returns True if each word of `text` occurs in the slot, node, state, job, group, GPU, problems or alert kinds."""
    slot, worker = entry.slot, entry.worker
    fields = [slot.name, slot.node, state_of(worker), worker.state.value, gpu_name(slot), job_of(worker)]
    fields += [worker.group.name if worker.group is not None else "", *(text for text, _ in notes(entry))]
    fields += [alert.kind for alert in worker.alerts]
    searched = "\n".join(fields).casefold()
    return all(word in searched for word in text.casefold().split())


def gpu_name(slot: Slot) -> str:
    """Returns the GPU's name without the vendor; `CPU` for a CPU slot."""
    return "CPU" if slot.gpu is None else slot.gpu.name.removeprefix("NVIDIA ")


# Ranks


def groups_text(workers: Sequence[Worker]) -> str:
    """Returns the groups of the workers: `groups g0 and g1, 8 ranks`; empty unless each worker is a rank."""
    sizes = {worker.group.id: worker.group.world_size for worker in workers if worker.group is not None}
    if not sizes or any(worker.group is None for worker in workers):
        return ""
    names = sorted(sizes, key=lambda name: (len(name), name))
    names_text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{'group' if len(names) == 1 else 'groups'} {names_text}, {units.count(sum(sizes.values()), 'rank')}"
