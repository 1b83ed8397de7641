"""From a worker to an attempt: the command line and the environment, made anew each time."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from gmg_tui.engine.aside import aside
from gmg_tui.engine.gate import Gate
from gmg_tui.engine.process import Step
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.warden_line import WardenLine
from gmg_tui.genesis import locks
from gmg_tui.genesis.environ import Environment, threads_each, worker_environment
from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.gpu.egl import EglMap
from gmg_tui.model import Gpu, RunSpec, Slot

_log = logging.getLogger(__name__)


class Launch(NamedTuple):
    """What one attempt is started with."""

    args: tuple[str, ...]
    """The script's arguments, placeholders filled in."""
    command: tuple[str, ...]
    """The whole command line."""
    environment: Environment


class Launcher:
    """Prepares attempts for all workers of a session.

    Args:
        spec: What to run.
        count: How many workers there are.
        pump: Reads their pipes.
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
        self._count = count
        self.pump = pump
        self._index_of = index_of
        self._egl = egl
        self._threads = threads_each(len(os.sched_getaffinity(0)), count)
        self.egl_notes: dict[str, str] = {}
        """How each slot's EGL index was found, or why it is unset."""

    async def prepare(
        self, slot: Slot, index: int, number: int, args: tuple[str, ...], env: Mapping[str, str]
    ) -> Launch:
        """What the next attempt of a worker is started with.

        Args:
            slot: Where it runs.
            index: The worker's number.
            number: The attempt's number, from 1.
            args: The script's arguments, placeholders not filled in.
            env: The worker's `--env`, placeholders not filled in.

        Raises:
            NvmlUnavailable: The slot's card does not answer.
        """
        gpu_index = egl_index = None
        if slot.gpu is not None:
            gpu_index = await self._index_of(slot.gpu)
            egl_index, note = (await self._egl).index_of(slot.gpu)
        else:
            note = "a CPU slot: Genesis takes the first EGL device that works"
        self.egl_notes[slot.name] = note
        values = values_for(slot, index, self._count, gpu_index)
        filled = tuple(fill(arg, values) for arg in args)
        environment = worker_environment(
            os.environ,
            session=self.spec.name,
            slot=slot,
            index=index,
            count=self._count,
            attempt=number,
            gpu_index=gpu_index,
            egl_index=egl_index,
            threads=self._threads,
            extra={name: fill(value, values) for name, value in env.items()},
        )
        await aside(_unlock, environment.full)
        module = ("-m",) if self.spec.module else ()
        return Launch(filled, (self.spec.python, *module, self.spec.script, *filled), environment)


def _unlock(environ: Mapping[str, str]) -> None:
    """Remove the locks that killed workers have left on the kernel cache: with one, an attempt compiles for minutes."""
    for path in locks.remove(locks.stale(environ)):
        _log.warning("removed a stale lock of the kernel cache: %s", path)
