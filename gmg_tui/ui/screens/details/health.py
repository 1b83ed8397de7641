"""A GPU's health, written to a page as labels and texts."""

from __future__ import annotations

import time

from gmg_tui import units
from gmg_tui.gpu import xids
from gmg_tui.model import GpuHealth, Severity
from gmg_tui.ui.drawing.page import Page


def write(page: Page, health: GpuHealth) -> None:
    """All that is wrong, each with what to do, then every counter; `n/a` for what the GPU does not report."""
    page.heading("Health")
    for trouble in health.troubles:
        page.text(f"{trouble.text}; {trouble.advice}", "error" if trouble.severity is Severity.FATAL else "warn")
    page.row("ECC errors", f"{_number(health.ecc_uncorrected)} uncorrected, {_number(health.ecc_corrected)} corrected")
    ever = f"{_number(health.ecc_uncorrected_ever)} uncorrected, {_number(health.ecc_corrected_ever)} corrected"
    page.row("", f"ever {ever}")
    waits = {True: "one waits for a reset", False: "none waits", None: units.NOT_SUPPORTED}[health.remap_pending]
    rows = f"{_number(health.remapped_uncorrected)} uncorrected, {_number(health.remapped_corrected)} corrected"
    page.row("rows replaced", f"{rows}; {waits}")
    page.row("HBM", _with_unit(health.memory_temperature_c, "°C"))
    width = f"x{_number(health.pcie_width)} of x{_number(health.pcie_width_max)}"
    page.row("PCIe link", f"generation {_number(health.pcie_gen)} of {_number(health.pcie_gen_max)}, {width}")
    page.row("NVLink", f"{_number(health.nvlink_errors)} errors, {_number(health.nvlink_recoveries)} recoveries")
    page.row("performance", units.NOT_SUPPORTED if health.pstate is None else f"state P{health.pstate}")
    if health.mps is not None:
        page.row("MPS", f"runs ({health.mps}): programs share the GPU, and one that crashes may end the others")
    for place, xid in enumerate(reversed(health.xids)):
        at = time.strftime("%H:%M:%S", time.localtime(xid.time))
        page.row("" if place else "Xids", f"{xid.code} at {at}, {units.count(xid.count, 'time')}: {_meaning(xid.code)}")


def _number(value: int | None) -> str:
    return units.NOT_SUPPORTED if value is None else f"{value:,}"


def _with_unit(value: float | None, unit: str) -> str:
    return units.NOT_SUPPORTED if value is None else f"{value:.0f} {unit}"


def _meaning(code: int) -> str:
    return xids.meaning(code).text
