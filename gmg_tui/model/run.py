"""What to run and how, as it was asked for."""

from __future__ import annotations

from msgspec import Struct

from gmg_tui.model.cards import Slot
from gmg_tui.model.jobs import SweepSpec
from gmg_tui.model.states import RestartWhen, StartWay


class RunSpec(Struct, frozen=True, omit_defaults=True):
    """What to run and how: the command line after reading, and what `session.json` keeps of it."""

    name: str
    folder: str
    """The session's folder, absolute."""
    socket: str
    """The path of the engine's socket, absolute."""
    script: str
    """As given."""
    args: tuple[str, ...]
    """As given, placeholders not filled in."""
    cwd: str
    python: str
    """The workers' interpreter."""
    module: bool = False
    env: dict[str, str] = {}
    """As given by `--env`, placeholders not filled in."""
    gpus: str | None = None
    """The value of `--gpus`."""
    cpu: int | None = None
    """The value of `--cpu`."""
    interval_s: float = 1.0
    summary: str | None = None
    """A further file for the summary, absolute."""
    sigint_wait_s: float = 15.0
    """How long a worker may take to end after SIGINT; Genesis saves its compiled kernels in this time."""
    sigterm_wait_s: float = 10.0
    start: StartWay | None = None
    """None: gated where the script's caches are cold, else together."""
    restart: RestartWhen = RestartWhen.STARTUP
    max_restarts: int = 3
    """How often in a row a worker is started again by itself."""
    stuck_after_s: float = 60.0
    """Seconds without output and without CPU time before a worker is called stuck."""
    restart_stuck: bool = False
    sweep: SweepSpec | None = None
    """What to queue; None for a plain run of `script` on every slot."""
    host: str = ""
    """The machine that it runs on (`uname -n`); several may share the state folder."""


class Session(Struct, frozen=True, omit_defaults=True):
    """What does not change while a session runs."""

    spec: RunSpec
    slots: tuple[Slot, ...]
    engine_pid: int
    started: float
    """Unix time, seconds."""
    version: str
    """The version of gmg-tui that the engine is."""

    def slot(self, name: str) -> Slot | None:
        """The slot called `name`."""
        return next((slot for slot in self.slots if slot.name == name), None)
