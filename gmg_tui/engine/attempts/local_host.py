"""State shared by a session's attempts on this machine, and each attempt's command line and environment."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.attempt import Report, Task
from gmg_tui.engine.attempts.code_check import check_code
from gmg_tui.engine.attempts.failure import DriverSilentError
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.attempts.process import Step
from gmg_tui.engine.output.logs import Log, LogWriter
from gmg_tui.engine.output.pipes import Pipes
from gmg_tui.engine.watchdog.client import WatchdogClient
from gmg_tui.jobs.argument_placeholders import checkpoint_values, fill, values_for
from gmg_tui.machine import numa
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.cgroup import Memory, folders, usable_cpus
from gmg_tui.machine.folders import make_private
from gmg_tui.machine.gpu.driver import LATE_S, MAX_DRIVER_WAIT_S, Driver, timeout_text
from gmg_tui.machine.gpu.egl import EglMap
from gmg_tui.machine.processes import Scans
from gmg_tui.model import Checkpoint, Gpu, Session, Slot
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import probe, torchrun
from gmg_tui.scripts.checkpoints import Trust, absence, is_disk_error, newest_intact, on_known_disks, relocate
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.genesis.caches import PhaseTimes, ScriptTimes
from gmg_tui.scripts.genesis.environ import Environment, thread_share, worker_environment
from gmg_tui.scripts.genesis.output import failure_signs
from gmg_tui.scripts.interpreter import (
    code_paths,
    installed,
)
from gmg_tui.scripts.probe.counts import Counts
from gmg_tui.scripts.probe.folders import make_folders
from gmg_tui.scripts.readers import formats
from gmg_tui.scripts.torchrun import Rendezvous, variables
from gmg_tui.simulation import FOLDER, VARIABLE

if TYPE_CHECKING:
    from gmg_tui.engine.workers.slot import EngineSlot
    from gmg_tui.engine.workers.worker import Worker

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

DRIVER_WAIT_REASON = "for the NVIDIA driver to answer"
"""The wait reason while the driver is slow."""
_DISK_REPORT_DELAY_S = 2.0
"""Seconds before a wait for a disk is shown."""
_DISK_TIMEOUT_S = 120.0
"""Time limit for each disk access before a start."""
_PORT_CHECK_INTERVAL_S = 2.0
_AWAY_CHECK_INTERVAL_S = 1.0
"""Interval between looks for a disk that is away."""


class Launch(NamedTuple):
    """The command and context of one attempt."""

    number: int
    task: Task
    slot: Slot
    rendezvous: Rendezvous | None
    args: tuple[str, ...]
    """The script's arguments, placeholders filled in."""
    command: tuple[str, ...]
    environment: Environment
    phase_times: PhaseTimes
    """Phase times of earlier starts of the script with these arguments."""
    egl_note: str
    """The origin of the slot's EGL index, or the reason that it is unset."""
    gpu_index: int | None = None
    """NVML index of the slot's GPU; None on a CPU slot."""
    continued_from: str | None = None
    """The path of the checkpoint to continue from; None to start from the beginning."""
    not_continued: str | None = None
    """The reason it starts from the beginning, or an earlier checkpoint, despite newer ones; None otherwise."""
    cores: frozenset[int] | None = None
    """The CPU cores it is pinned to; None for all."""
    memory_warning: str | None = None
    """A warning if it starts before the GPU's memory has been released; None otherwise."""


class LocalHost:
    """Prepares a session's attempts on this machine, and holds the state that they share.

    At most `count` workers run at once. `nvml` is the driver, None with only CPU slots; `egl` resolves to the mapping
    from GPUs to EGL devices.
    """

    def __init__(
        self, session: Session, count: int, pipes: Pipes, logs: LogWriter, nvml: Driver | None, egl: Awaitable[EglMap]
    ) -> None:
        self.session, self.spec = session, session.spec
        spec = session.spec
        self.is_torchrun = torchrun.is_torchrun(spec.script, module=spec.module)
        """True if the script is torchrun, which starts ranks of its own."""
        self.pipes = pipes
        self.watchdog = WatchdogClient()
        self.result_names = set[str]()
        """Names of the metrics reported by any attempt, shared because their number is limited."""
        self.scans = Scans()
        failure_signs.table()  # read now: an upgrade may replace the file before the first failure
        self.formats: list[formats.Format] = []
        """The line formats in the user's settings and options."""
        self.warning: str | None = None
        """The reason that the formats are ignored; None if they are not."""
        try:
            self.formats = formats.from_settings(spec.readers, formats.check(spec.patterns))
        except GmgError as error:  # an earlier version accepted them when the session was started
            self.warning = f"{error}; this pattern and [readers] are ignored"
        self.script_times = ScriptTimes(
            spec, sessions.sessions_folder().parent, on_gpu=session.slots[0].gpu is not None
        )
        self.gate = Gate(spec.start or self.script_times.start_mode(spec))
        self._robosuite = "robosuite" in installed(spec.python)
        self._count, self._logs, self._nvml, self._egl = count, logs, nvml, egl
        self._calls: dict[Hashable, asyncio.Task[object]] = {}
        """Running calls that may block forever, shared: a hung driver must not cost a thread per attempt."""
        self._memories: WeakValueDictionary[tuple[Path, ...], Memory] = WeakValueDictionary()
        self._cores_near_gpus = (
            numa.near_cores(session.slots) if spec.pin and spec.simulate is None and spec.nodes is None else {}
        )
        """The CPU cores near each slot's GPU, on machines with several NUMA nodes."""

    def create_attempt(self, slot: EngineSlot, worker: Worker) -> LocalAttempt:
        """Returns a new attempt of a worker's task on its slot."""
        return LocalAttempt(self, slot.ring, slot.memory, worker)

    async def rendezvous_address(self, slots: Sequence[str]) -> tuple[str, int]:
        """Returns an address and a free port for the ranks on these slots, once there is one."""
        while (port := torchrun.free_port()) is None:
            _log.warning("no port is free for the ranks on %s; waiting for one", ", ".join(slots))
            await asyncio.sleep(_PORT_CHECK_INTERVAL_S)
        return torchrun.LOOPBACK, port

    @property
    def stop_steps(self) -> tuple[Step, ...]:
        """The signals of a graceful stop; a user's torchrun needs time to end its ranks."""
        spec = self.spec
        sigint_wait_s = max(spec.sigint_wait_s, torchrun.GRACE_S if self.is_torchrun else 0.0)
        return (signal.SIGINT, sigint_wait_s), (signal.SIGTERM, spec.sigterm_wait_s), (signal.SIGKILL, 5.0)

    @property
    def group_steps(self) -> tuple[Step, ...]:
        """The signals that end a rank of a failed group: SIGTERM first, as torchrun does."""
        return (signal.SIGTERM, self.spec.sigterm_wait_s), (signal.SIGKILL, 5.0)

    async def make_counts(self, report: Report) -> Counts:
        """Returns the probe's counts, after making their folder if the session has the probe. Raises `GmgError`."""
        if not self.spec.probe:
            return Counts()
        disk = "the disk with the probe's counts"
        folders = await self.await_disk(disk, lambda: make_folders(Path(self.spec.folder)), report, object())
        no_room = "no folder has room for the probe: checkpoints are not seen"
        return Counts(*folders, trouble=None if folders else no_room)

    def memory_of(self, pid: int) -> Memory:
        """Returns the memory that a process may use; processes in the same cgroups share it."""
        cgroups = tuple(folders("memory", Path(f"/proc/{pid}")))
        if (memory := self._memories.get(cgroups)) is None:
            memory = self._memories[cgroups] = Memory(cgroups)
        return memory

    def open_log(self, path: str) -> Log:
        """Returns a worker's log, at a path in the session's folder."""
        agent = self.spec.agent
        folder = agent.logs if agent is not None and agent.logs else self.spec.folder
        return Log(self._logs, Path(folder) / path, self.spec.log_max_bytes)

    async def await_disk(self, source: str, function: Callable[[], _T], report: Report, key: Hashable = None) -> _T:
        """Runs `function`, which may wait for a disk; the wait reason on the screen names `source`.

        Concurrent calls with the same `source` and `key` are merged. Raises `GmgError` if there is no answer in time.
        """
        try:
            times_s = _DISK_REPORT_DELAY_S, _DISK_TIMEOUT_S
            return await self._share((source, key), function, lambda: report(f"for {source}"), times_s)
        except TimeoutError:
            raise GmgError(f"{source} has not answered for {_DISK_TIMEOUT_S:.0f} s", 1) from None
        finally:
            report(None)

    async def _share(
        self, key: Hashable, function: Callable[[], _T], report: Callable[[], None], times_s: tuple[float, float]
    ) -> _T:
        """Calls `function`, or joins the running call with the same key. Returns its result.

        `times_s` are the seconds before it calls `report` and before it raises `TimeoutError`; the call keeps running.
        """
        task: asyncio.Task[object] | None = self._calls.get(key)
        if task is None:
            task = self._calls[key] = asyncio.create_task(in_daemon_thread(function))
            task.add_done_callback(lambda _: self._calls.pop(key))
        late_s, limit_s = times_s
        if not (await asyncio.wait([task], timeout=late_s))[0]:
            report()
            if not (await asyncio.wait([task], timeout=limit_s - late_s))[0]:
                raise TimeoutError
        result: _T = task.result()  # type: ignore[assignment]  # a key stands for one function
        return result

    async def prepare(self, slot: Slot, task: Task, rendezvous: Rendezvous | None, report: Report) -> Launch:
        """Prepares an attempt: its command line, environment, checkpoint and cores.

        `report` gets the wait reason. Raises `NvmlUnavailable`, or `GmgError` for a failed disk or a wrong owner.
        """
        number = task.attempt_number(rendezvous)
        if rendezvous is not None:
            rendezvous = rendezvous._replace(error_file=str(Path(self.spec.folder, rendezvous.error_file)))
        gpu_index = egl_index = None
        if slot.gpu is not None:
            gpu_index = await self._index_of(slot.gpu, report)
            egl_index, note = (await self._egl).index_of(slot.gpu)
            if self._robosuite:
                note += "; MUJOCO_EGL_DEVICE_ID is unset: robosuite reads it as an index into CUDA_VISIBLE_DEVICES"
        else:
            note = "a CPU slot: Genesis uses the first EGL device that works"
        values = {**values_for(slot, task.index, task.count, gpu_index), **task.values}
        args, env = tuple(fill(arg, values) for arg in task.args), task.env
        extra = {name: fill(value, values) for name, value in env.items()}
        checkpoint, not_continued = await self._find_checkpoint(task, (*args, *extra.values()), report)
        if checkpoint is not None:
            task = replace(task, checkpoints=relocate(task.checkpoints, checkpoint))
            resume_values = {**values, **checkpoint_values(Path(checkpoint.path))}
            args += tuple(fill(arg, resume_values) for arg in task.resume_args)
        cores = self._cores_for(slot, task, {**os.environ, **env})
        # Simulated workers report their GPU use in this folder.
        simulation = {} if self.spec.simulate is None else {VARIABLE: str(Path(self.spec.folder, FOLDER))}
        own = {
            "GMG_SESSION": self.spec.agent.session if self.spec.agent is not None else self.spec.name,
            "GMG_SESSION_ID": self.session.id,
            "GMG_SLOT": slot.name,
            "GMG_WORKER_INDEX": str(task.index),
            "GMG_NUM_WORKERS": str(task.count),
            "GMG_ATTEMPT": str(number),
        }
        environment = worker_environment(
            os.environ,
            slot,
            own=own | ({"GMG_JOB": str(task.job), "GMG_JOB_NAME": task.name} if task.job is not None else {}),
            gpu_index=gpu_index,
            egl_index=egl_index,
            threads=self._thread_count(cores),
            robosuite=self._robosuite,
            extra=extra | simulation,
            rank_variables={} if rendezvous is None else variables(rendezvous, {**os.environ, **env}),
            devices=await self._visible_devices(task.visible_slots, report)
            if rendezvous is None or not rendezvous.virtual_local_rank
            else (),
        )
        if self.spec.probe:
            added = probe.python_path(environment.full)
            environment = environment._replace(set=environment.set | added, full=environment.full | added)
        full, cwd, error_file = (
            environment.full,
            self.spec.cwd,
            rendezvous.error_file if rendezvous is not None else None,
        )
        await self.await_disk(
            "the disk with the kernel cache", lambda: clear_locks(full, cwd), report, caches.kernel_cache(full, cwd)
        )
        if error_file is not None:
            await self.await_disk("the session's disk", lambda: make_rank_folder(error_file), report, error_file)
        templates = task.args
        phase_times = await self.await_disk(
            "the disk with the session's state", lambda: self.script_times.history(templates), report, templates
        )
        # After all long waits: meanwhile, another user may have made a folder anew that was removed.
        await self.await_disk("the disk with the script", lambda: check_code(self.spec), report)
        module, script = (("-m",) if self.spec.module else ()), self.spec.script
        if script.startswith("-") and not module:
            script = f"./{script}"  # else it would be an interpreter option
        return Launch(
            number,
            task,
            slot,
            rendezvous,
            args,
            (self.spec.python, *module, script, *args),
            environment,
            phase_times,
            note,
            gpu_index,
            checkpoint.path if checkpoint is not None else None,
            not_continued or task.left_out,
            cores,
        )

    def _cores_for(self, slot: Slot, task: Task, environ: Mapping[str, str]) -> frozenset[int] | None:
        """Returns the cores to pin an attempt to, near its GPUs; None not to pin it, as when the user binds threads."""
        if any(name in environ for name in numa.BINDING_VARIABLES):
            return None
        own = (slot,) if task.rank is not None or not task.visible_slots else task.visible_slots
        return numa.cores_near_any((each.name for each in own), self._cores_near_gpus)

    def _thread_count(self, cores: frozenset[int] | None) -> int:
        """Returns the number of threads for an attempt pinned to `cores` (None: not pinned)."""
        threads = thread_share(usable_cpus(), self._count)
        if cores is None:
            return threads
        sharers = sum(not cores.isdisjoint(near) for near in self._cores_near_gpus.values())
        return min(threads, thread_share(len(cores), sharers))

    async def _find_checkpoint(
        self, task: Task, given: Sequence[str], report: Report
    ) -> tuple[Checkpoint | None, str | None]:
        """Returns the checkpoint to continue from, or the reason that none can be used; (None, None) if none exists.

        `given` are the attempt's arguments and variables. Waits a while if all are away: from the start, the script would
        overwrite them once they are back. Raises `GmgError` if their disk does not work.
        """
        if not task.resume_args or not task.checkpoints:
            return None, None
        trust, disk, all_saved = self._trust(given), "the disk with the checkpoints", task.checkpoints
        saved = await self.await_disk(disk, lambda: on_known_disks(all_saved, trust), report, (trust, all_saved))
        if not saved:
            reason = f"{all_saved[-1].path} is on a disk that only a node has named; name its folder in an argument"
            return None, f"it started from the beginning: {reason}"
        until, was_away = time.monotonic() + _DISK_TIMEOUT_S, False
        while True:
            found = await self.await_disk(disk, lambda: newest_intact(saved, trust), report, saved)
            error = None
            if isinstance(found, str):
                error = await self.await_disk(disk, lambda: absence(saved), report, (absence, saved))
            if error is None and was_away:  # it may have come back during the first look
                was_away = False
                continue
            if error is None or (time.monotonic() > until and not is_disk_error(error)):
                break
            was_away = True
            if time.monotonic() > until:
                raise GmgError(f"its checkpoints cannot be read: {error.strerror}", 1) from error
            report(f"for {disk}")
            await asyncio.sleep(_AWAY_CHECK_INTERVAL_S)
        advice = "" if self.spec.agent is None else "; save to a disk that all machines share"
        return (None, found + advice) if isinstance(found, str) else (found, None)

    def _trust(self, given: Sequence[str]) -> Trust:
        spec, runs = self.spec, code_paths(self.spec)
        texts = *runs, spec.cwd, spec.folder, *os.environ.values(), *given
        node = spec.agent.node if spec.agent is not None else ""
        return Trust(runs, (sessions.RECORD, sessions.ENGINE_LOG), node, texts)

    async def _visible_devices(self, slots: tuple[Slot, ...], report: Report) -> tuple[str, ...]:
        """Returns the names of these slots' GPUs for `CUDA_VISIBLE_DEVICES`."""
        names = []
        for slot in slots:
            if slot.gpu is not None:
                index = await self._index_of(slot.gpu, report)
                names.append(slot.gpu.uuid if slot.is_mig else str(index))
        return tuple(names)

    async def _index_of(self, gpu: Gpu, report: Report) -> int:
        """Returns the current NVML index of a GPU, or of the GPU that a MIG instance is on.

        `report` gets the wait reason. Raises `NvmlUnavailable` if the GPU or the driver does not answer.
        """
        nvml, uuid = self._nvml, gpu.parent_uuid or gpu.uuid
        if nvml is None:
            return gpu.index
        times_s = LATE_S, MAX_DRIVER_WAIT_S
        try:
            return await self._share(uuid, lambda: nvml.index_of(uuid), lambda: report(DRIVER_WAIT_REASON), times_s)
        except TimeoutError:
            raise DriverSilentError(timeout_text(MAX_DRIVER_WAIT_S)) from None


def make_rank_folder(error_file: str) -> None:
    """Makes the folder for a rank's error file. Raises `GmgError`."""
    folder = Path(error_file).parent
    try:
        make_private(folder)
    except OSError as error:
        raise GmgError(f"cannot make the rank's folder {folder}: {error.strerror}", 1) from error
    with contextlib.suppress(OSError):  # left by this attempt before the session was resumed
        Path(error_file).unlink()


def clear_locks(environ: Mapping[str, str], cwd: str) -> None:
    """Removes locks that killed workers left in Genesis' caches: a stale one makes each attempt compile for minutes."""
    for path in caches.remove_stale_locks(environ, cwd):
        _log.warning("removed a stale lock of the kernel cache: %s", path)
