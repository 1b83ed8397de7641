"""The definition of a run: program, options, machines."""

from pathlib import PurePath
from typing import Any

from msgspec import Struct

from gmg_tui.model.alert import AlertAction
from gmg_tui.model.gpus import Slot
from gmg_tui.model.jobs import SweepSpec
from gmg_tui.model.states import Moment, RestartMode, StartMode
from gmg_tui.model.tuning import TuneSpec


class DdpSpec(Struct, frozen=True, omit_defaults=True):
    """The groups of a run's workers."""

    size: int | None = None
    """Ranks in a group; None for one group over all slots."""
    virtual_local_rank: bool = False
    """True if each rank sees only its own GPU, as local rank 0, instead of all GPUs of its group."""


class NodesSpec(Struct, frozen=True, omit_defaults=True):
    """The machines of a session, as given by `--nodes` and the options beside it."""

    where: str
    """The launcher and its argument: `slurm`, `ray:ADDRESS`, `ssh:HOST,HOST`, or for tests `local:2`."""
    orphan_wait_s: float = 60.0
    """Seconds an agent waits for its session's engine before it ends its workers."""
    lost_after_s: float = 15.0
    """Seconds without a message after which a node is lost and its jobs requeued. An open connection proves nothing:
    srun, ssh and TCP report a dead machine minutes later, or never."""


class AgentSpec(Struct, frozen=True, omit_defaults=True):
    """The settings of a node's agent: an engine that does the work the session's engine assigns."""

    node: str
    """The launcher's name for the node."""
    session: str
    session_id: str
    version: str = ""
    """The session engine's version of gmg-tui; the agent's must be the same."""
    logs: str = ""
    """The session's folder if this node shares it, for the workers' logs; else empty."""
    orphan_wait_s: float = 60.0
    max_hang_s: float | None = None
    """Seconds after which its watchdog ends the workers of an agent that hangs: their jobs start elsewhere. None for never."""
    peers: tuple[str, ...] = ()
    """Names of the other nodes."""
    replaces: tuple[str, ...] = ()
    """IDs of the session's earlier engines, whose agents may still be running here."""
    owners: tuple[str, ...] = ()
    """The owners of the files that workers run, and of their folders, on the session's machine (`ownership.marks`)."""
    cwd_owners: tuple[str, ...] = ()
    """The owners of the folder they start in, and of its parents."""


class NodeView(Struct, frozen=True, omit_defaults=True):
    """A snapshot of a node."""

    name: str
    connected: bool = True
    silent_s: float | None = None
    """Seconds since its last message, if unusually long."""
    lost_since: float | None = None
    """Unix time when it was lost with its workers; None unless lost."""
    trouble: str | None = None


class RunSpec(Struct, frozen=True, omit_defaults=True):
    """The definition of a session: the parsed command line, as stored in `session.json`.

    A field named like an option of `gmg_tui.session.options` has that option's value.
    """

    name: str
    folder: str
    """Absolute path."""
    socket: str
    """Absolute path of the engine's socket."""
    script: str
    """As given."""
    args: tuple[str, ...]
    """As given, placeholders not filled in."""
    cwd: str
    python: str
    python_given: bool = False
    """True if `python` was given by `--python`."""
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
    """The tables `[readers.NAME]` of the settings."""
    pin: bool = True
    probe: bool = True
    interval_s: float = 1.0
    summary: str | None = None
    """Absolute path."""
    sigint_wait_s: float = 15.0
    sigterm_wait_s: float = 10.0
    log_max_bytes: int | None = None
    """None for no limit."""
    start: StartMode | None = None
    """None: gated if the script's caches are cold, else together."""
    restart: RestartMode = RestartMode.STARTUP
    max_restarts: int = 3
    stuck_after_s: float = 60.0
    resume_args: tuple[str, ...] = ()
    """Placeholders not filled in."""
    on: dict[str, AlertAction] = {}
    sweep: SweepSpec | None = None
    """The queue; None for a plain run of `script` on every slot."""
    tune: TuneSpec | None = None
    """The search of a tuning run, with its trials as the jobs of `sweep`."""
    ddp: DdpSpec | None = None
    """The groups of the workers; None if they are independent."""
    own_options: tuple[str, ...] = ()
    """Words of `args` that are also options of gmg-tui, such as `--gpus`, for advice if the script rejects them."""
    nodes: NodesSpec | None = None
    """None for this machine alone."""
    agent: AgentSpec | None = None
    """None unless the engine is a node's agent."""
    notify: tuple[str, ...] = ()
    notify_cwd: str = ""
    """Folder in which `notify` was given when the session was resumed; empty for `cwd`."""
    path_owners: dict[str, int] = {}
    """User IDs of the owners of what any user could have created, as in `/tmp`, of the paths that workers or commands use."""
    host: str = ""
    """Name of its machine (`uname -n`): several machines may share the state folder."""

    @property
    def command(self) -> str:
        """The command that started it: `run`, `sweep` or `tune`."""
        return "tune" if self.tune is not None else "sweep" if self.sweep is not None else "run"

    @property
    def script_path(self) -> str:
        """The path of the script, or the name of the module."""
        return self.script if self.module else f"{PurePath(self.cwd, self.script)}"


class Allocation(Struct, frozen=True, omit_defaults=True):
    """The Slurm job that a session runs in."""

    job: str
    ends: float | None = None
    """Unix time of its time limit; None if unlimited or unknown."""


class Versions(Struct, frozen=True, omit_defaults=True):
    """Versions in the workers' interpreter, read from its files; None if unknown."""

    python: str | None = None
    genesis: str | None = None
    torch: str | None = None
    compiler: str | None = None
    """Name and version of Genesis' compiler."""


class Session(Struct, frozen=True, omit_defaults=True):
    """The constant data of a session."""

    spec: RunSpec
    slots: tuple[Slot, ...]
    engine_pid: int
    started: Moment
    version: str
    """The engine's version of gmg-tui."""
    id: str = ""
    """Random ID, new for each engine; workers have it in `GMG_SESSION_ID`. A name is unique only within its
    state folder, and a resumed session has several engines."""
    idle: tuple[str, ...] = ()
    """Slots left over after forming groups; not among `slots`."""
    versions: Versions | None = None
    """Versions at the session's start."""
    commit: str | None = None
    """The git commit of the script's folder at the session's start, with `-dirty` if files differ from it."""
    before: Moment | None = None
    """Start of the first engine; None unless the session was resumed."""

    @property
    def began(self) -> float:
        """The start of its first engine, Unix seconds."""
        return self.started if self.before is None else self.before

    @property
    def idle_text(self) -> str:
        """One line about the idle slots; empty if there are none."""
        if not self.idle or self.spec.ddp is None:
            return ""
        count, size = len(self.slots) + len(self.idle), self.spec.ddp.size
        stay = "stays" if len(self.idle) == 1 else "stay"
        return f"{', '.join(self.idle)} {stay} idle: {count} slots do not divide into groups of {size}"

    def slot(self, name: str) -> Slot | None:
        """Returns the slot called `name`."""
        return next((slot for slot in self.slots if slot.name == name), None)
