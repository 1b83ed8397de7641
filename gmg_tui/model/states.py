"""States of workers and phases of scripts."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

Moment = Annotated[float, Meta(ge=0.0, lt=253_402_214_400.0)]
"""Unix time, seconds; a date up to the year 9999 in every time zone, so that it can always be formatted."""

SUSPENDED_S = 15.0
"""Seconds without any check by the engine that show a suspension of the whole job, as by `docker pause`: nothing was idle."""


class WorkerState(StrEnum):
    """The state of a worker; the screen shows the value."""

    WAITING = "waiting"
    """Waiting for the start gate, or in the queue."""
    STARTING = "starting"
    """The process has started, but printed nothing yet."""
    BUILDING = "building"
    """Genesis is initialising, adding entities, preparing meshes or building the scene."""
    COMPILING = "compiling"
    """Genesis is compiling its kernels, or building the visualizer after that."""
    RUNNING = "running"
    """The script has reported progress or, without Genesis, printed a line."""
    STOPPING = "stopping"
    """The attempt is ending: its processes or other ranks of its group may still be running."""
    RESTARTING = "restarting"
    """Between two attempts."""
    FINISHED = "finished"
    """Ended with exit code 0."""
    FAILED = "failed"
    """Ended in any other way."""
    STOPPED = "stopped"
    """Ended by the user."""

    @property
    def ended(self) -> bool:
        """True if no process is left and none will follow unless the user requests one."""
        return self in _ENDED

    @property
    def live(self) -> bool:
        """True if a process of this worker may exist."""
        return self in _LIVE

    @property
    def starting_up(self) -> bool:
        """True if a process is running, but its simulation has not started."""
        return self in _STARTING_UP

    @property
    def active(self) -> bool:
        """True if a process is running and is not being stopped."""
        return self in _LIVE and self is not WorkerState.STOPPING


_STARTING_UP = frozenset({WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING})
_ENDED = frozenset({WorkerState.FINISHED, WorkerState.FAILED, WorkerState.STOPPED})
_LIVE = frozenset(WorkerState) - _ENDED - {WorkerState.WAITING, WorkerState.RESTARTING}


class Phase(StrEnum):
    """The phase of a Genesis script, finer than `WorkerState`; the screen shows the value."""

    NONE = ""
    """No process."""
    IMPORTING = "importing"
    """Python is importing torch and Genesis."""
    INITIALISING = "initialising"
    CREATING = "creating scene"
    BUILDING = "building scene"
    COMPILING = "compiling kernels"
    BUILT = "scene built"
    """Built, but not stepped yet."""
    RUNNING = "running"
    SAVING = "saving kernels"
    """After `Exiting Genesis and caching compiled kernels...`."""


class StartMode(StrEnum):
    """Start order of a session's workers (`--start`)."""

    GATED = "gated"
    """The first worker alone, the others once it has written its mesh caches."""
    TOGETHER = "together"
    STAGGERED = "staggered"
    """One after another, some seconds apart."""


class RestartMode(StrEnum):
    """Exits after which a worker restarts by itself (`--restart`)."""

    NEVER = "never"
    STARTUP = "startup"
    """Failures that a retry may fix, if they occur before the first progress."""
    FAILURE = "failure"
    ALWAYS = "always"
