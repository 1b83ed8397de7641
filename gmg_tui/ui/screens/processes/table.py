"""The processes on a GPU, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gmg_tui import units
from gmg_tui.model import GpuProcess, Slot
from gmg_tui.ui.drawing.page import Column, Page

_COLUMNS: Final = (
    Column("PID", 8),
    Column("user", 9, metrics=False),
    Column("age", 8),
    Column("memory", 9),
    Column("whose", 12, metrics=False),
    Column("command", 0, metrics=False),
)
_INDENT: Final = 2


def command_of(process: GpuProcess) -> str:
    """The command line, or what is known of it."""
    return process.command or process.name or units.NOT_KNOWN


def whose(process: GpuProcess) -> str:
    """The owner: a worker of this session, somebody else, or what is not visible; a host's PID means nothing here."""
    if process.slot is not None:
        return f"{process.slot} worker"
    if process.foreign:
        return "host's PID"
    return "not ours" if process.user is not None else "not visible"


def none_to_show(slot: Slot | None) -> str:
    """Why there is no table when the engine reports no processes."""
    if slot is not None and slot.gpu is None:
        return f"{slot.name} is a share of the CPU and has no GPU."
    return "The driver does not report this GPU's processes."


def write(page: Page, processes: Sequence[GpuProcess], *, chosen: int | None = None) -> Page:
    """Add the table to `page`; the pointer is on the process with the PID `chosen`."""
    page.headings(_COLUMNS, indent=_INDENT)
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
        lead = page.appearance.signs.pointer if at else ""
        page.cells(_COLUMNS, cells, "strong" if at else "text", lead=lead, indent=_INDENT)
    return page
