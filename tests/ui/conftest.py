"""What the tests of the interface share: Textual with its switches, and apps on a scripted engine."""

from __future__ import annotations

from gmg_tui import ui

ui.load()
