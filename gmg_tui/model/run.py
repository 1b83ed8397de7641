"""The definition of a run: program, options, machines."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from gmg_tui.model.alert import AlertAction
from gmg_tui.model.gpus import Slot
from gmg_tui.model.jobs import SweepSpec
from gmg_tui.model.states import RestartMode, StartMode
from gmg_tui.model.tuning import TuneSpec

UnixTime = Annotated[float, Meta(ge=0, lt=253_402_214_400)]
"""Seconds; a date of the calendar in each time zone, up to the last day of the year 9999."""


class DdpSpec(Struct, frozen=True, omit_defaults=True):
    """Groups of the workers of a run."""

    size: int | None = None
    """Ranks in a group; None for one group over all slots."""
    virtual_local_rank: bool = False
    """True if each rank sees only its GPU, and is local rank 0; otherwise it sees all of its group's."""


class NodesSpec(Struct, frozen=True, omit_defaults=True):
    """The machines of a session, as given by `--nodes` and the options beside it."""

    where: str
    """The launcher of the agents, and its argument: `slurm`, `ray:ADDRESS`, `ssh:HOST,HOST`, or for tests `local:2`."""
    orphan_wait_s: float = 60.0
    """Seconds that an agent runs without its session's engine before it ends its workers."""
    lost_after_s: float = 15.0
    """After how long without a message a node counts as lost, whatever the state of its connection: srun, ssh and TCP report
    the end of a machine minutes later, or never. Its jobs go back to their queue."""


class AgentSpec(Struct, frozen=True, omit_defaults=True):
    """Makes an engine the agent of a node: it runs what the session's engine requests."""

    node: str
    """Its name, which is the launcher's."""
    session: str
    """The session's name."""
    session_id: str
    """The id of the session's engine."""
    version: str = ""
    """The version of gmg-tui that the session's engine has; the agent's must be the same."""
    logs: str = ""
    """The session's folder, where this node sees it too, and the workers' logs are written to; empty where it does not."""
    orphan_wait_s: float = 60.0
    peers: tuple[str, ...] = ()
    """Names of other nodes."""


class NodeView(Struct, frozen=True, omit_defaults=True):
    """A node at one moment."""

    name: str
    connected: bool = True
    silent_s: float | None = None
    """Seconds since its last message, once that is longer than usual."""
    lost_since: float | None = None
    """Unix time since which it counts as lost: its workers are gone; None while it does not."""
    trouble: str | None = None
    """One line on the error."""


class RunSpec(Struct, frozen=True, omit_defaults=True):
    """The definition of a session: the parsed command line, as kept in `session.json`.

    What is named as an option of `gmg_tui.session.options` is the value of that option.
    """

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
    python_given: bool = False
    """True if given by `--python`."""
    module: bool = False
    env: dict[str, str] = {}
    """As given by `--env`, placeholders not filled in."""
    gpus: str | None = None
    wait_s: float | None = None
    free_mib: float = 500.0
    cpu: int | None = None
    simulate: int | None = None
    patterns: tuple[str, ...] = ()
    readers: dict[str, dict[str, Any]] = {}
    """The tables `[readers.NAME]` of the settings, for `readers.formats`."""
    pin: bool = True
    """True if a worker is kept on the CPU cores near its GPU."""
    probe: bool = True
    """True if steps are counted in the workers' interpreters."""
    interval_s: float = 1.0
    summary: str | None = None
    """Absolute."""
    sigint_wait_s: float = 15.0
    sigterm_wait_s: float = 10.0
    log_max_bytes: int | None = None
    """None for no limit."""
    start: StartMode | None = None
    """None: gated where the script's caches are cold, else together."""
    restart: RestartMode = RestartMode.STARTUP
    max_restarts: int = 3
    stuck_after_s: float = 60.0
    resume_args: tuple[str, ...] = ()
    """Added to the arguments of an attempt that can continue from a checkpoint, placeholders not filled in."""
    on: dict[str, AlertAction] = {}
    """Actions of alerts by kind, as given by `--on`."""
    sweep: SweepSpec | None = None
    """The queue; None for a plain run of `script` on every slot."""
    tune: TuneSpec | None = None
    """The search of a tuning, with its trials as the jobs of `sweep`."""
    ddp: DdpSpec | None = None
    """The groups of the workers; None if they are independent."""
    own_options: tuple[str, ...] = ()
    """Words of `args` that are also options of gmg-tui, such as `--gpus`; the script may not know them."""
    nodes: NodesSpec | None = None
    """The machines whose slots it uses; None for this machine alone."""
    agent: AgentSpec | None = None
    """Set where the engine is the agent of a node, and runs what another engine requests."""
    notify: tuple[str, ...] = ()
    host: str = ""
    """The machine that it runs on (`uname -n`); several may share the state folder."""


class Allocation(Struct, frozen=True, omit_defaults=True):
    """The Slurm job that a session runs in."""

    job: str
    """Its number."""
    ends: float | None = None
    """Unix time at which its time limit is reached, seconds; None for no limit, and where it is unknown."""


class Versions(Struct, frozen=True, omit_defaults=True):
    """Versions in the workers' interpreter, read from its files; None if these do not name them."""

    python: str | None = None
    genesis: str | None = None
    torch: str | None = None
    compiler: str | None = None
    """Name and version of Genesis' compiler."""


class Session(Struct, frozen=True, omit_defaults=True):
    """The constants of a session while it runs."""

    spec: RunSpec
    slots: tuple[Slot, ...]
    engine_pid: int
    started: UnixTime
    version: str
    """The engine's version of gmg-tui."""
    id: str = ""
    """Random, made by the engine when it starts; its processes carry it in `GMG_SESSION_ID`. A name is unique only
    within its state folder, and a resumed session has several engines."""
    idle: tuple[str, ...] = ()
    """Chosen slots that no group takes, because they are fewer than its ranks; not among `slots`."""
    versions: Versions | None = None
    """Of what the workers run on, at the session's start."""
    commit: str | None = None
    """The git commit of the script's folder at the session's start, with `-dirty` if files differ from it."""
    before: UnixTime | None = None
    """The start of the first of several engines; None unless the session was resumed."""

    @property
    def began(self) -> float:
        """The start of its first engine, Unix seconds."""
        return self.started if self.before is None else self.before

    @property
    def idle_text(self) -> str:
        """One line on the idle slots and the reason; empty if there are none."""
        if not self.idle or self.spec.ddp is None:
            return ""
        count, size = len(self.slots) + len(self.idle), self.spec.ddp.size
        stay = "stays" if len(self.idle) == 1 else "stay"
        return f"{', '.join(self.idle)} {stay} idle: {count} slots make groups of {size}"

    def slot(self, name: str) -> Slot | None:
        """Returns the slot called `name`."""
        return next((slot for slot in self.slots if slot.name == name), None)
