"""Gathers the facts about a worker's speed on request."""

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from statistics import fmean

from msgspec import structs

from gmg_tui import model
from gmg_tui.diagnosis.figures import find_hot_spot
from gmg_tui.engine.attempts.attempt import Life
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.attempts.stacks import SAMPLES, stacks_of
from gmg_tui.engine.clock import unix
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.machine import numa, process_load
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.model import GpuProcess, HotSpot, RunSpec, SpeedFacts, Stacks, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tuning import FPS
from gmg_tui.session.paths import STORE
from gmg_tui.session.session_record import list_sessions
from gmg_tui.session.store.database import StoreError
from gmg_tui.session.store.reader import open_store

_AVERAGING_S = 10
"""Seconds over which the GPU's figures are averaged."""
_MIN_SHARER_MIB = 256.0
_MIN_STRAGGLE_PCT = 20.0
_MAX_TUNINGS_READ = 20
_STORE_TIMEOUT_S = 1.0


async def facts_of(slot: EngineSlot, group: Iterable[EngineSlot], owners: dict[int, str], spec: RunSpec) -> SpeedFacts:
    """Returns the facts about the worker on a slot, compared with the other ranks of its `group`; takes a second.

    `owners` are the slots of the session's processes, by PID. Raises `GmgError` if its node does not answer.
    """
    now = time.monotonic()
    view = slot.view()
    facts = _current_facts(slot, view, now)
    match slot.worker.newest if slot.worker is not None else None:
        case LocalAttempt() as attempt if attempt.life is Life.ALIVE and view.pid:
            pid = attempt.readings.counts.stepping_pid or view.pid
            load = await in_daemon_thread(process_load.measure, attempt.pids, pid)
            node = numa.node_of(slot.slot.gpu.pci_bus_id) if slot.slot.gpu is not None else None
            facts = structs.replace(
                facts,
                load=load,
                shares=attempt.readings.counts.shares(now),
                sharers=_sharers(slot, owners),
                numa_node=node,
                remote_cpus=numa.remote_cpus(load.cpus, node) if load is not None else (),
            )
        case RemoteAttempt() as attempt if view.state.live:
            facts = await attempt.speed()
    gpu = slot.slot.gpu.name if slot.slot.gpu is not None else None
    tuned = await in_daemon_thread(tuned_envs, program_of(spec), gpu) if view.state.live else None
    return structs.replace(facts, tuned_envs=tuned, waits_for=_rank_behind(slot, group, facts, now))


async def hot_spot_of(slot: EngineSlot) -> HotSpot | None:
    """Returns the hot spot of the script on a slot, from two seconds of stacks; None without one. Raises `GmgError`."""
    match slot.worker.newest if slot.worker is not None else None:
        case LocalAttempt() as attempt if attempt.life is Life.ALIVE:
            counts = attempt.readings.counts
            pid = counts.stepping_pid or attempt.record().pid or 0
            stacks = await stacks_of(pid, counts.folder, Stacks(slot.slot.name), SAMPLES)
            if stacks.error:
                raise GmgError(f"no stacks: {stacks.error}", 1)
            return find_hot_spot(stacks.text)
        case RemoteAttempt() as attempt:
            return await attempt.hot_spot()
    raise GmgError(f"no process is running on {slot.slot.name}", 1)


def _current_facts(slot: EngineSlot, view: model.Worker, now: float) -> SpeedFacts:
    """Returns the facts that the engine already has."""
    alerts = {alert.kind: alert.text for alert in view.alerts}
    facts = SpeedFacts(
        slot.slot.name,
        view.state,
        phase=view.phase,
        phase_s=max(0.0, unix(now) - view.phase_since) if view.phase_since else 0.0,
        phase_usual_s=view.phase_usual_s,
        reason=view.reason,
        stuck=alerts.get("stuck"),
        misplaced=alerts.get("cpu") or alerts.get("misplaced"),
        n_envs=view.newest.n_envs,
        has_gpu=slot.slot.gpu is not None,
        recorded=view.newest.verdict,
    )
    sample = slot.sample
    if sample is None or not view.state.live:
        return facts
    recent = slot.history.recent(slot.slot.name)
    seconds = max(1, min(_AVERAGING_S, int(facts.phase_s)))  # exclude the start
    return structs.replace(
        facts,
        gpu_util_pct=_mean(recent.gpu_util_pct[-seconds:], sample.gpu_util_pct),
        sm_pct=_mean(recent.sm_pct[-seconds:], sample.sm_pct),
        sample=structs.replace(sample, processes=None),
    )


def _mean(values: Iterable[float | None], newest: float | None) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers and newest is not None else newest


def _sharers(slot: EngineSlot, owners: dict[int, str]) -> tuple[str, ...]:
    """Returns the other users of the slot's GPU: workers of this session, and other programs."""
    listed = slot.sample.processes if slot.sample is not None else None
    workers = {owners.get(process.own_pid or 0) for process in listed or ()} - {slot.slot.name, None}
    large = [other for other in slot.others if other.memory_mib is None or other.memory_mib >= _MIN_SHARER_MIB]
    return (*(f"{name}'s worker" for name in sorted(filter(None, workers))), *map(_describe, large))


def _describe(process: GpuProcess) -> str:
    memory = f", {units.mib(process.memory_mib)}" if process.memory_mib is not None else ""
    return f"{process.name or 'a process'} (PID {process.pid}{memory})"


def _rank_behind(slot: EngineSlot, group: Iterable[EngineSlot], facts: SpeedFacts, now: float) -> str | None:
    """Returns a description of the rank that this one waits for; None if it waits for none."""
    busy_pct = _busy_pct(facts.shares)
    for other in group:
        view = other.view() if other is not slot else None
        if view is None or view.group is None or facts.state is not WorkerState.RUNNING:
            continue
        rank = f"rank {view.group.rank} ({view.slot})"
        if view.state.starting_up:
            return f"{rank}, which is {view.phase.value or view.state.value}"
        attempt = other.worker.newest if other.worker is not None else None
        if busy_pct is not None and isinstance(attempt, LocalAttempt) and attempt.life is Life.ALIVE:
            other_pct = _busy_pct(attempt.readings.counts.shares(now))
            if other_pct is not None and other_pct >= busy_pct + _MIN_STRAGGLE_PCT:
                return f"{rank}, which spends {other_pct:.0f} % of its time between updates, this one {busy_pct:.0f} %"
    return None


def _busy_pct(shares: model.Shares | None) -> float | None:
    """Returns the percent of time spent outside learning, where ranks wait for each other; None if unknown."""
    return 100 - shares.learning if shares is not None else None


def program_of(spec: RunSpec) -> tuple[bool, str]:
    """Returns a key that identifies a session's script."""
    return spec.module, spec.script_path


@cache  # reads the records of all sessions
def tuned_envs(program: tuple[bool, str], gpu: str | None) -> int | None:
    """Returns the number of environments that a program's newest tuning on a GPU model recommends; None if unknown."""

    def is_match(session: model.Session) -> bool:
        tune, models = session.spec.tune, {slot.gpu.name if slot.gpu is not None else None for slot in session.slots}
        is_same = program_of(session.spec) == program and models == {gpu}
        return tune is not None and tune.metric == FPS and "env" in tune.variable.lower() and is_same

    for entry in [entry for entry in list_sessions() if is_match(entry.record.session)][:_MAX_TUNINGS_READ]:
        with suppress(OSError, StoreError), open_store(entry.folder / STORE, _STORE_TIMEOUT_S) as stored:
            snapshot = stored.last_snapshot
            tuning = snapshot.tuning if snapshot is not None else None
            if tuning is not None and tuning.answer.recommended is not None:
                return tuning.answer.recommended.value
    return None
