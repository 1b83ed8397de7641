"""Apps on the fake engine, and what they show, as text."""

import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from gmg_tui.model import Snapshot
from gmg_tui.session.protocol import Welcome
from gmg_tui.ui import Outcome
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.drawing import Row
from gmg_tui.ui.session_app import SessionApp
from gmg_tui.ui.slots import SlotView
from gmg_tui.ui.terminal import patch_partial_updates
from gmg_tui.ui.view import Tab, View
from gmg_tui.ui.workers import grid
from gmg_tui.ui.workers.rate_line import rate_lines
from gmg_tui.ui.workers.table import WorkerTable
from tests.patience import LONG_S
from tests.ui import sessions
from tests.ui.fake_engine import FakeEngine
from tests.workers import changed

LOG_LINES = 400
_TRY_S = 0.01
LOOKS = {"watch", "details", "series", "queue", "tried", "happened", "speed", "close"}
"""Requests that change nothing."""


class FakedApp(GmgApp):
    """The app on an engine that the test controls."""

    REDRAW_INTERVAL_S = 0.001
    SILENT_S = sys.maxsize
    """It sends only what a test pushes."""
    engine: FakeEngine

    def log_path(self, slot: str) -> Path | None:
        return self.engine.log_path(slot) if slot in self.engine.log else super().log_path(slot)

    def run_test(self, **options: Any) -> AbstractAsyncContextManager[Pilot[Outcome]]:  # type: ignore[override]
        """As in Textual, with notifications."""
        return super().run_test(**{"notifications": True, **options})


def engine_of(snapshot: Snapshot, *, cpus: int = 0, lines: Sequence[str] = sessions.log_of(LOG_LINES)) -> FakeEngine:
    """An engine on as many slots as `snapshot` has workers, each with a past and a log."""
    number = len(snapshot.workers)
    session = sessions.session(0, cpus=cpus) if cpus else sessions.session(number)
    recent = sessions.recent(number, name="cpu", top=14_000) if cpus else sessions.recent(number)
    log = {slot.name: lines for slot in session.slots}
    return FakeEngine(session, snapshot, recent=recent, log=log)


def edited_engine(**changes: Any) -> FakeEngine:
    """An engine on four GPUs whose workers are in their second attempt; `changes` are made to the first."""
    snapshot = sessions.edited_snapshot(**changes)
    slots = [worker.slot for worker in snapshot.workers]
    made = FakeEngine(sessions.session(4), snapshot, recent=tuple(map(sessions.edited_series, slots)))
    made.details_of = {slot: sessions.details(slot) for slot in slots}
    return made


def app_of(engine: FakeEngine, *, theme: str | None = None, ascii_only: bool = False) -> FakedApp:
    """An app that draws all at once, so that a test need not wait for its pace."""
    return FakedApp(engine, theme=theme, ascii_only=ascii_only)


def busy(gpus: int = 8) -> FakedApp:
    return app_of(engine_of(sessions.busy_snapshot(gpus)))


def logged(app: FakedApp, *lines: str) -> FakedApp:
    """The app, with these lines in all logs."""
    app.engine.log = {worker.slot: lines for worker in app.view.snapshot.workers}
    app.engine.push(app.engine.snapshot)
    return app


def varied() -> FakedApp:
    return app_of(engine_of(sessions.varied_snapshot()))


def edited(**changes: Any) -> FakedApp:
    """Workers in their second attempt; `changes` are made to the first."""
    return app_of(edited_engine(**changes))


def tile(entry: SlotView, width: int, height: int = grid.MIN_TILE_ROWS) -> list[Row]:
    return grid.tile(entry, width, height, rate_lines([entry], width - 4)[entry.slot.name])


def table_row(entry: SlotView, width: int) -> tuple[Row, str]:
    """The row of a worker on its own, and the text below the table."""
    session = changed(sessions.session(1), slots=(entry.slot,))
    samples = (entry.sample,) if entry.sample is not None else ()
    snapshot = changed(sessions.busy_snapshot(1), time=entry.time, workers=(entry.worker,), samples=samples)
    view = View(Welcome(session, snapshot, ()))
    view.histories[entry.slot.name] = entry.history
    made = type("Sized", (WorkerTable,), {"room": Size(width, 9)})(view)
    (band,) = bands = view.bands(1)
    made.show(bands)
    made.prepare(width, bands)
    return made.line(band, made.measure({"": band})[""], width), " ".join(fact.text for fact in made.facts(band))


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, each once the one before has done its work; `do:ACTION` runs an action of the palette."""
    for key in keys:
        if key.startswith("do:"):
            await pilot.app.run_action(key[3:])
        else:
            await pilot.press(key)
        await pilot.pause()


async def write(pilot: Pilot[Any], text: str) -> None:
    await pilot.press(*text)
    await pilot.pause()


async def click(pilot: Pilot[Any], text: str) -> None:
    """Click the first place where `text` stands on the screen."""
    row, line = next((row, line) for row, line in enumerate(screen(pilot.app)) if text in line)
    await pilot.click(offset=(line.index(text) + len(text) // 2, row))
    await pilot.pause()


def asked(of: FakeEngine) -> list[tuple[object, ...]]:
    """Requests that change something."""
    return [request for request in of.asked if request[0] not in LOOKS]


def burst(pilot: Pilot[Any], *keys: str) -> None:
    """Put the keys into the app's queue together, as the driver does with one read."""
    for key in keys:
        if key.startswith("do:"):
            pilot.app.call_later(pilot.app.run_action, key[3:])
            continue
        pilot.app.post_message(events.Key(key, " " if key == "space" else key if len(key) == 1 else None))


def record(monkeypatch: pytest.MonkeyPatch, console: Console) -> list[str]:
    """What apps send to the terminal from now on, one text for each frame."""
    sent: list[str] = []
    monkeypatch.setattr(ChopsUpdate, "render_segments", ChopsUpdate.render_segments)  # the original returns at the end
    patch_partial_updates()

    def display(app: App[object], screen: Screen[object], frame: RenderableType | None) -> None:
        if isinstance(frame, CompositorUpdate):
            sent.append(frame.render_segments(console))

    terminal = SimpleNamespace(write=sent.append, flush=lambda: None)
    monkeypatch.setattr(SessionApp, "terminal", terminal)
    monkeypatch.setattr(GmgApp, "_tick", lambda app: None)  # there is no window whose size counts
    monkeypatch.setattr(App, "_display", display)
    return sent


def screen(app: App[Any]) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


def shown(app: App[Any]) -> str:
    return "\n".join(screen(app))


async def resize(pilot: Pilot[Any], width: int, height: int) -> None:
    """Give the terminal another size, and wait until every row is drawn in it."""
    await pilot.resize_terminal(width, height)
    await until(pilot, lambda: [cell_len(row) for row in screen(pilot.app)] == [width] * height, f"{width}×{height}")


async def until(pilot: Pilot[Any], holds: Callable[[], bool], wanted: object = "what is waited for") -> None:
    """Wait until something holds, which is called `wanted` where it never does."""
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, f"never came: {wanted}\n{shown(pilot.app)}"
        await pilot.pause(_TRY_S)


async def sees(pilot: Pilot[Any], *texts: str) -> None:
    """Wait until the screen shows all of `texts`."""
    await until(pilot, lambda: all(text in shown(pilot.app) for text in texts), texts)


@asynccontextmanager
async def enlarged(
    tab: Tab, engine: FakeEngine | None = None, *keys: str, size: tuple[int, int] = (80, 24), slot: str = ""
) -> AsyncIterator[Pilot[Any]]:
    """The pane on the whole screen, with a tab of a worker."""
    app = app_of(engine or edited_engine())
    async with app.run_test(size=size) as pilot:
        app.view.choose(slot)
        await press(pilot, "enter", f"do:screen.show_tab({tab.value!r})", *keys)
        yield pilot
