"""States of workers and phases of scripts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

Moment = Annotated[float, Meta(ge=0.0, lt=253_402_300_800.0)]
"""Unix time, seconds; what a node reports is refused beyond the year 9999, which no calendar here has."""


class WorkerState(StrEnum):
    """The state of a worker; the screen shows the value."""

    WAITING = "waiting"
    """For the start gate or for the queue."""
    STARTING = "starting"
    """The process has started and printed nothing."""
    BUILDING = "building"
    """Genesis initialises, adds entities, prepares meshes or builds the scene."""
    COMPILING = "compiling"
    """Genesis compiles its kernels, or builds the visualizer after that."""
    RUNNING = "running"
    """Progress has been reported or, by a script without Genesis, anything at all."""
    STOPPING = "stopping"
    """A signal was sent and the process is still there."""
    RESTARTING = "restarting"
    """Between two attempts."""
    FINISHED = "finished"
    """Ended with exit code 0."""
    FAILED = "failed"
    """Ended otherwise; the worker's `reason` is one line."""
    STOPPED = "stopped"
    """Ended by the user."""

    @property
    def ended(self) -> bool:
        """True if no process is left and none will follow unless the user requests one."""
        return self in _ENDED

    @property
    def live(self) -> bool:
        """True if a process of this worker exists."""
        return self in _LIVE


_ENDED = frozenset({WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED})
_LIVE = frozenset(
    {WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING, WorkerState.RUNNING, WorkerState.STOPPING}
)


class Phase(StrEnum):
    """The phase of a Genesis script, finer than `WorkerState`; the screen shows the value."""

    NONE = ""
    """No process."""
    IMPORTING = "importing"
    """Python imports torch and Genesis."""
    INITIALISING = "initialising"
    CREATING = "creating scene"
    BUILDING = "building scene"
    COMPILING = "compiling kernels"
    BUILT = "scene built"
    """And not stepped yet."""
    RUNNING = "running"
    SAVING = "saving kernels"
    """After `Exiting Genesis and caching compiled kernels...`."""


class StartMode(StrEnum):
    """The start of a session's workers (`--start`)."""

    GATED = "gated"
    """The first one alone, the others once it has written its mesh caches."""
    TOGETHER = "together"
    STAGGERED = "staggered"
    """One after another, some seconds apart."""


class RestartMode(StrEnum):
    """When a worker that has ended is started again by itself (`--restart`)."""

    NEVER = "never"
    STARTUP = "startup"
    """After failures that a retry heals, before the first progress."""
    FAILURE = "failure"
    ALWAYS = "always"
