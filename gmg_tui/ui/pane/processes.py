"""The columns of a GPU's processes."""

from __future__ import annotations

from typing import Final

from gmg_tui.model import GpuProcess, units
from gmg_tui.results.column import Column


def _owner(process: GpuProcess) -> str:
    """Returns the owner: a worker of this session, somebody else, or not visible; a host's PID means nothing here."""
    if process.slot is not None:
        return f"{process.slot} worker"
    if process.foreign:
        return "host's PID"
    return "not ours" if process.user is not None else "not visible"


def command(process: GpuProcess) -> str:
    """Returns the command line, or at least the name."""
    return process.command or process.name or units.NOT_KNOWN


COLUMNS: Final = (
    Column[GpuProcess]("pid", lambda process: process.pid, "PID", write=str),
    Column[GpuProcess]("user", lambda process: process.user, left=True, limit=16),
    Column[GpuProcess]("age_s", lambda process: process.age_s, "age", write=units.span),
    Column[GpuProcess]("memory_mib", lambda process: process.memory_mib, "VRAM", write=units.mib),
    Column[GpuProcess]("owner", _owner, left=True),
    Column[GpuProcess]("command", command, left=True, limit=200),
)
