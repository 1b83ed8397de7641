"""Sessions on several machines: which, and what is known of each."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class LauncherKind(StrEnum):
    """What starts the agents."""

    LOCAL = "local"
    """Processes of this machine, for tests and simulations."""
    SSH = "ssh"
    SLURM = "slurm"
    RAY = "ray"


class NodesSpec(Struct, frozen=True, omit_defaults=True):
    """The machines of a session, as `--nodes` and the options beside it say."""

    launcher: LauncherKind
    where: str = ""
    """What follows the launcher's name and a colon: hosts, an address, a number."""
    least: int | None = None
    """How many must answer for the session to begin (`--min-nodes`); None for all."""
    orphan_wait_s: float = 60.0
    """How long an agent goes on without its session's engine before it ends its workers."""
    job: str = ""
    """The number of the Slurm job that was asked for, for this session alone (`--slurm`): it ends with the session."""

    @property
    def text(self) -> str:
        """What `--nodes` is given."""
        return f"{self.launcher.value}:{self.where}" if self.where else self.launcher.value


class AgentSpec(Struct, frozen=True, omit_defaults=True):
    """What makes an engine the agent of a node: it runs what the session's engine tells it."""

    node: str
    """Its name, which is the launcher's."""
    session: str
    """The session's name."""
    session_id: str
    """The id of the session's engine."""
    logs: str = ""
    """The session's folder, where this node sees it too, and the workers' logs are written to; empty where it does not."""
    orphan_wait_s: float = 60.0


class NodeView(Struct, frozen=True, omit_defaults=True):
    """A node at one moment."""

    name: str
    connected: bool = True
    silent_s: float | None = None
    """How long nothing has been heard of it, once that is longer than usual."""
    lost_since: float | None = None
    """Unix time since which it counts as lost: its workers are gone; None while it does not."""
    trouble: str | None = None
    """What is wrong, in one line."""
