"""Apps on the fake engine, and what they show, as text."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.pilot import Pilot

from gmg_tui.model import Snapshot
from gmg_tui.ui import Outcome
from gmg_tui.ui.app import GmgApp
from tests.ui import sessions
from tests.ui.fake_engine import FakeEngine

LOG_LINES = 400
_TRIES, _TRY_S = 500, 0.01


def engine_of(snapshot: Snapshot, *, cpus: int = 0) -> FakeEngine:
    """An engine on as many slots as `snapshot` has workers, each with a past and a log."""
    number = len(snapshot.workers)
    session = sessions.session(0, cpus=cpus) if cpus else sessions.session(number)
    recent = sessions.recent(number, name="cpu", top=14_000) if cpus else sessions.recent(number)
    log = {slot.name: sessions.log_of(LOG_LINES) for slot in session.slots}
    return FakeEngine(session, snapshot, recent=recent, log=log)


def app_of(engine: FakeEngine, *, theme: str | None = None, ascii_only: bool = False) -> GmgApp:
    """An app that draws all at once, so that a test need not wait for its pace."""
    app = GmgApp(engine, theme=theme, ascii_only=ascii_only, pace_s=0.0)
    app.main.log_view.pace.period_s = 0.0
    return app


def busy(gpus: int = 8) -> GmgApp:
    """All workers run."""
    return app_of(engine_of(sessions.busy_snapshot(gpus)))


def varied() -> GmgApp:
    """Nearly everything happens that can."""
    return app_of(engine_of(sessions.varied_snapshot()))


def screen(app: App[Any]) -> list[str]:
    """The rows that the screen shows."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def shown(app: App[Any]) -> str:
    """All that the screen shows."""
    return "\n".join(screen(app))


async def sees(pilot: Pilot[Outcome], *texts: str) -> None:
    """Wait until the screen shows all of `texts`."""
    for _ in range(_TRIES):
        if all(text in shown(pilot.app) for text in texts):
            return
        await pilot.pause(_TRY_S)
    raise AssertionError(f"not all of {texts} are on the screen:\n{shown(pilot.app)}")
