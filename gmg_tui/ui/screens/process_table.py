"""The processes on a card, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gmg_tui import units
from gmg_tui.model import GpuProcess, Slot
from gmg_tui.ui.screens.sheet import Column, Sheet

_COLUMNS: Final = (
    Column("PID", 8),
    Column("user", 9, figures=False),
    Column("age", 8),
    Column("memory", 9),
    Column("whose", 12, figures=False),
    Column("command", 0, figures=False),
)
_INDENT: Final = 2


def command_of(process: GpuProcess) -> str:
    """The command line as far as it is known."""
    return process.command or process.name or units.NOT_KNOWN


def whose(process: GpuProcess) -> str:
    """Whose it is: a worker of this session, a stranger's, or of another PID namespace, where nothing more is known."""
    if process.slot is not None:
        return f"{process.slot} worker"
    return "not ours" if process.user is not None else "not visible"


def none_to_show(slot: Slot | None) -> str:
    """Why there is no table, when the engine gives no processes."""
    if slot is not None and slot.gpu is None:
        return f"{slot.name} is a share of the CPU: there is no card."
    return "The card does not say which processes are on it."


def write(sheet: Sheet, processes: Sequence[GpuProcess], *, chosen: int | None = None) -> Sheet:
    """Add the table to `sheet`; the process with the PID `chosen` is pointed at."""
    sheet.headings(_COLUMNS, indent=_INDENT)
    for process in processes:
        at = process.pid == chosen
        cells = (
            str(process.pid),
            process.user or units.NOT_KNOWN,
            units.span(process.age_s),
            units.mib(process.memory_mib),
            whose(process),
            command_of(process),
        )
        lead = sheet.look.signs.pointer if at else ""
        sheet.cells(_COLUMNS, cells, "strong" if at else "text", lead=lead, indent=_INDENT)
    return sheet
