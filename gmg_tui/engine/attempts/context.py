"""Prepares attempts: the command line and the environment, made afresh each time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.output.logs import Log, LogWriter
from gmg_tui.engine.output.pipes import Pipes
from gmg_tui.engine.processes.process import Step
from gmg_tui.engine.processes.process_tree import Scans
from gmg_tui.engine.watchdog.client import WatchdogClient
from gmg_tui.jobs.argument_placeholders import fill, fill_some, values_for
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.gpu import silence
from gmg_tui.machine.gpu.driver import Driver
from gmg_tui.machine.gpu.egl import EglMap
from gmg_tui.machine.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu, RunSpec, Session, Slot, StartMode
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import probe, torchrun
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.genesis.environ import Environment, threads_each, worker_environment
from gmg_tui.scripts.genesis.phase_times import PhaseTimes, key_of
from gmg_tui.scripts.interpreter import versions
from gmg_tui.scripts.torchrun import Meeting, variables
from gmg_tui.simulation import FOLDER, VARIABLE

_log = logging.getLogger(__name__)


AWAITS_DRIVER = "for the NVIDIA driver to answer"
"""What an attempt waits for when the driver is slow."""


class DriverSilentError(NvmlUnavailable):
    """The driver has not answered for long."""


class Launch(NamedTuple):
    """What one attempt is started with."""

    number: int
    """The attempt's, from 1."""
    task: Task
    slot: Slot
    meeting: Meeting | None
    """Where a rank meets its group; None for a worker that is in none."""
    args: tuple[str, ...]
    """The script's arguments, placeholders filled in."""
    command: tuple[str, ...]
    """The whole command line."""
    environment: Environment
    written: tuple[str, ...]
    """The script's arguments as written."""
    egl_note: str
    """How the slot's EGL index was determined, or why it is unset."""
    gpu_index: int | None = None
    """NVML index of the slot's GPU; None on a CPU slot."""
    given: tuple[str, ...] = ()
    """The arguments with only the job's values filled in, which are the same for all workers that do the same."""
    given_env: Mapping[str, str] = MappingProxyType({})
    """The environment given for the worker, likewise."""


PHASE_TIMES = "phase_times"
"""Beside the sessions' folder: what is remembered of each script's starts."""


class ScriptTimes:
    """What is remembered of a session's script."""

    def __init__(self, spec: RunSpec, *, on_gpu: bool) -> None:
        self._kind = "gpu" if on_gpu else "cpu"
        self._script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
        installed = versions(spec.python)
        self._versions = f"{installed.genesis} {installed.compiler}"
        self._caches_exist = caches.exist({**os.environ, **spec.env})
        self._known: dict[str, PhaseTimes] = {}

    def of(self, args: Sequence[str]) -> PhaseTimes:
        """What is remembered of the script with these arguments, before placeholders are filled in."""
        key = key_of(self._script, args, self._kind)
        if key not in self._known:
            folder = sessions.sessions_folder().parent / PHASE_TIMES
            self._known[key] = PhaseTimes(folder, key, self._versions, caches_exist=self._caches_exist)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        for times in list(self._known.values()):
            times.save()

    def start_mode(self, spec: RunSpec) -> StartMode:
        """How to start by default: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before. Ranks of one group wait for each other as they start.
        """
        times = self.of(spec.args)
        ranks = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        return StartMode.TOGETHER if times.meshes_written or ranks else StartMode.GATED


class Context:
    """Prepares attempts for all workers of a session.

    `count` workers run at once. `nvml` knows the GPUs, and is None where there are only CPU slots; `egl` is the mapping
    from GPUs to EGL devices, once the probe has returned it.
    """

    def __init__(
        self, session: Session, count: int, pipes: Pipes, logs: LogWriter, nvml: Driver | None, egl: Awaitable[EglMap]
    ) -> None:
        self.spec = spec = session.spec
        self.torchrun = torchrun.starts(spec.script, module=spec.module)
        """Whether the script is torchrun, which starts ranks of its own."""
        self.pipes = pipes
        self.watchdog = WatchdogClient()
        self.scans = Scans()
        self.script_times = ScriptTimes(spec, on_gpu=session.slots[0].gpu is not None)
        self.gate = Gate(spec.start or self.script_times.start_mode(spec))
        self._session_id, self._count, self._logs, self._nvml, self._egl = session.id, count, logs, nvml, egl

    @property
    def stop_steps(self) -> tuple[Step, ...]:
        """How a worker is stopped gracefully; a user's torchrun needs time to end its ranks."""
        spec = self.spec
        sigint_wait_s = max(spec.sigint_wait_s, torchrun.GRACE_S if self.torchrun else 0.0)
        return (signal.SIGINT, sigint_wait_s), (signal.SIGTERM, spec.sigterm_wait_s), (signal.SIGKILL, 5.0)

    @property
    def group_steps(self) -> tuple[Step, ...]:
        """How a rank is ended whose group has failed: as torchrun does, with SIGTERM first."""
        return (signal.SIGTERM, self.spec.sigterm_wait_s), (signal.SIGKILL, 5.0)

    def open_log(self, path: str) -> Log:
        """A worker's log, at a path in the session's folder."""
        agent = self.spec.agent
        folder = agent.logs if agent is not None and agent.logs else self.spec.folder
        return Log(self._logs, Path(folder) / path, self.spec.log_max_bytes)

    async def prepare(
        self,
        slot: Slot,
        task: Task,
        number: int,
        args: tuple[str, ...],
        env: Mapping[str, str],
        report: Callable[[str], None],
        *,
        meeting: Meeting | None = None,
    ) -> Launch:
        """Prepare attempt `number` of `task`; placeholders in `args` and `env` are filled in here.

        `report` is called with what it has to wait for; `meeting` is where a rank meets its group.

        Raises `NvmlUnavailable` if the slot's GPU does not answer, and `GmgError` if the rank's folder cannot be made.
        """
        gpu_index = egl_index = None
        if slot.gpu is not None:
            gpu_index = await index_of(self._nvml, slot.gpu, report)
            egl_index, note = (await self._egl).index_of(slot.gpu)
        else:
            note = "a CPU slot: Genesis takes the first EGL device that works"
        values = {**task.values, **values_for(slot, task.index, task.count, gpu_index)}
        filled = tuple(fill(arg, values) for arg in args)
        job = {"GMG_JOB": str(task.job), "GMG_JOB_NAME": task.name} if task.job is not None else {}
        environment = worker_environment(
            os.environ,
            session=self.spec.agent.session if self.spec.agent is not None else self.spec.name,
            session_id=self._session_id,
            slot=slot,
            index=task.index,
            count=task.count,
            attempt=number,
            gpu_index=gpu_index,
            egl_index=egl_index,
            threads=threads_each(len(os.sched_getaffinity(0)), self._count),
            extra={name: fill(value, values) for name, value in env.items()} | self._simulation(),
            more=({} if meeting is None else variables(meeting, {**os.environ, **env})) | job,
            devices=await self._devices(task.cards, report)
            if meeting is None or not meeting.virtual_local_rank
            else (),
        )
        if self.spec.probe:
            added = probe.on_path(environment.full)
            environment = environment._replace(set=environment.set | added, full=environment.full | added)
        await in_daemon_thread(_make_ready, environment.full, meeting.error_file if meeting is not None else None)
        module, script = (("-m",) if self.spec.module else ()), self.spec.script
        if script.startswith("-") and not module:
            script = f"./{script}"  # it would be an option of the interpreter's
        return Launch(
            number,
            task,
            slot,
            meeting,
            filled,
            (self.spec.python, *module, script, *filled),
            environment,
            args,
            note,
            gpu_index,
            given=tuple(fill_some(arg, task.own_values) for arg in args),
            given_env={name: fill_some(value, task.own_values) for name, value in env.items()},
        )

    def _simulation(self) -> dict[str, str]:
        """Where simulated workers report their use of the GPUs."""
        return {} if self.spec.simulate is None else {VARIABLE: str(Path(self.spec.folder, FOLDER))}

    async def _devices(self, cards: tuple[Slot, ...], report: Callable[[str], None]) -> tuple[str, ...]:
        """How `CUDA_VISIBLE_DEVICES` names the GPUs of these slots."""
        names = []
        for card in cards:
            if card.gpu is not None:
                index = await index_of(self._nvml, card.gpu, report)
                names.append(card.gpu.uuid if card.is_mig else str(index))
        return tuple(names)


async def index_of(nvml: Driver | None, gpu: Gpu, report: Callable[[str], None]) -> int:
    """The current NVML index of a GPU, or of the GPU that a MIG instance is on.

    `report` gets a line while the driver is slow. Raises `NvmlUnavailable` if the GPU or the driver does not answer.
    """
    if nvml is None:
        return gpu.index
    asking = asyncio.create_task(in_daemon_thread(nvml.index_of, gpu.parent_uuid or gpu.uuid))
    if not (await asyncio.wait([asking], timeout=silence.LATE_S))[0]:
        report(AWAITS_DRIVER)
        if not (await asyncio.wait([asking], timeout=silence.GIVE_UP_S - silence.LATE_S))[0]:
            asking.cancel()
            raise DriverSilentError(silence.gave_up(silence.GIVE_UP_S))
    return asking.result()


def _make_ready(environ: Mapping[str, str], error_file: str | None) -> None:
    """Make the folder of the rank, and remove locks that killed workers have left.

    With such a lock each attempt compiles for minutes. All of it may have to wait for a disk.
    """
    if error_file is not None:
        folder = Path(error_file).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GmgError(f"cannot make the rank's folder {folder}: {error.strerror}", 1) from error
        with contextlib.suppress(OSError):  # of this attempt in a session that is resumed
            Path(error_file).unlink()
    for path in caches.remove_stale_locks(environ):
        _log.warning("removed a stale lock of the kernel cache: %s", path)
