"""From a worker to an attempt: the command line and the environment, made anew each time."""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gmg_tui.engine.aside import aside
from gmg_tui.engine.gate import Gate
from gmg_tui.engine.logs import Logs
from gmg_tui.engine.process import Step
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.task import Task
from gmg_tui.engine.warden_line import WardenLine
from gmg_tui.errors import GmgError
from gmg_tui.genesis import locks
from gmg_tui.genesis.environ import Environment, JobVariables, threads_each, worker_environment
from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.gpu.egl import EglMap
from gmg_tui.model import Gpu, RunSpec, Slot

_log = logging.getLogger(__name__)


class NoRoomError(GmgError):
    """The disk has no room for a job's folder."""


class Launch(NamedTuple):
    """What one attempt is started with."""

    args: tuple[str, ...]
    """The script's arguments, placeholders filled in."""
    command: tuple[str, ...]
    """The whole command line."""
    environment: Environment
    out_dir: str | None = None
    """The job's own folder, absolute; None in a plain run."""
    gpu_index: int | None = None
    """NVML index of the slot's card; None on a CPU slot."""


class Launcher:
    """Prepares attempts for all workers of a session.

    Args:
        spec: What to run.
        count: How many workers run at once.
        pump: Reads their pipes.
        logs: Write what they said.
        index_of: The NVML index of a card at this moment; a card's index may change when another one is lost.
        egl: The mapping from cards to EGL devices, once it is known.
        gate: Says when a worker may start.
        warden: Hears of every process.
    """

    def __init__(
        self,
        spec: RunSpec,
        count: int,
        pump: Pump,
        logs: Logs,
        index_of: Callable[[Gpu], Awaitable[int]],
        egl: Awaitable[EglMap],
        gate: Gate,
        warden: WardenLine,
    ) -> None:
        self.spec = spec
        self.gate = gate
        self.warden = warden
        self.stop_steps: tuple[Step, ...] = (
            (signal.SIGINT, spec.sigint_wait_s),
            (signal.SIGTERM, spec.sigterm_wait_s),
            (signal.SIGKILL, 5.0),
        )
        self.pump = pump
        self.logs = logs
        self._index_of = index_of
        self._egl = egl
        self._threads = threads_each(len(os.sched_getaffinity(0)), count)
        self.egl_notes: dict[str, str] = {}
        """How each slot's EGL index was found, or why it is unset."""

    async def prepare(
        self, slot: Slot, task: Task, number: int, args: tuple[str, ...], env: Mapping[str, str]
    ) -> Launch:
        """What the next attempt of a worker is started with.

        Args:
            slot: Where it runs.
            task: What it runs.
            number: The attempt's number, from 1.
            args: The script's arguments, placeholders not filled in.
            env: The worker's `--env`, placeholders not filled in.

        Raises:
            NvmlUnavailable: The slot's card does not answer.
            NoRoomError: The disk has no room for the job's folder.
            GmgError: The job's folder cannot be made for another reason.
        """
        gpu_index = egl_index = None
        if slot.gpu is not None:
            gpu_index = await self._index_of(slot.gpu)
            egl_index, note = (await self._egl).index_of(slot.gpu)
        else:
            note = "a CPU slot: Genesis takes the first EGL device that works"
        self.egl_notes[slot.name] = note
        values = {**task.values, **values_for(slot, task.index, task.count, gpu_index)}
        out_dir = None
        if task.out_dir is not None:
            values["out_dir"] = out_dir = os.path.join(self.spec.cwd, fill(task.out_dir, values))  # noqa: PTH118
        filled = tuple(fill(arg, values) for arg in args)
        environment = worker_environment(
            os.environ,
            session=self.spec.name,
            slot=slot,
            index=task.index,
            count=task.count,
            attempt=number,
            gpu_index=gpu_index,
            egl_index=egl_index,
            threads=self._threads,
            extra={name: fill(value, values) for name, value in env.items()},
            job=None if task.job is None else JobVariables(task.job, task.name, out_dir or ""),
        )
        await aside(_make_ready, environment.full, out_dir)
        module = ("-m",) if task.module else ()
        return Launch(filled, (self.spec.python, *module, task.script, *filled), environment, out_dir, gpu_index)


def _make_ready(environ: Mapping[str, str], out_dir: str | None) -> None:
    """Do what may have to wait for a disk: make the job's folder, remove locks that killed workers have left.

    With such a lock on the kernel cache an attempt compiles for minutes.
    """
    if out_dir is not None:
        try:
            Path(out_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            kind = NoRoomError if error.errno in (errno.ENOSPC, errno.EDQUOT) else GmgError
            raise kind(f"cannot make the job's folder {out_dir}: {error.strerror}", 1) from error
    for path in locks.remove(locks.stale(environ)):
        _log.warning("removed a stale lock of the kernel cache: %s", path)
