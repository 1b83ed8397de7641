"""The Why tab: the verdict on a worker's speed, refreshed while it is shown, with stacks only on `enter`."""

from msgspec import structs

from gmg_tui.model import Phase, Shares, SpeedFacts, WorkerState
from gmg_tui.ui.app import GmgApp
from gmg_tui.ui.pane.why_tab import SPEED_POLL_INTERVAL_S
from gmg_tui.ui.view import Tab
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import press

_SPEED = SpeedFacts(
    "gpu0", WorkerState.RUNNING, Phase.RUNNING, n_envs=4096, shares=Shares(29.0, 0.0, 0.0), gpu_util_pct=38.0
)


def _count(engine: FakeEngine, name: str) -> int:
    """Requests of this name."""
    return sum(request[0] == name for request in engine.asked)


async def test_the_verdict_is_refreshed_and_enter_takes_stacks_once() -> None:
    engine = play.edited_engine()
    engine.speed_of = _SPEED
    async with play.enlarged(Tab.LOG, engine, "escape", "w") as pilot:
        await play.sees(
            pilot, "host-bound: 71 % of each step is the script", "GPU 38 %", "enter takes 20 samples in two seconds"
        )
        assert _count(engine, "hot_spot") == 0
        engine.speed_of = structs.replace(_SPEED, gpu_util_pct=97.0)
        await play.sees(pilot, "GPU-bound: 97 %")
        engine.speed_of = _SPEED
        await press(pilot, "enter")
        await play.sees(pilot, "44 % of the script's time in compute_reward (train.py:212)")
        assert isinstance(pilot.app, GmgApp)
        assert pilot.app.view.maximized
        assert _count(engine, "hot_spot") == 1
        engine.push(sessions.edited_snapshot(attempt=3))
        await play.sees(pilot, "enter takes 20 samples in two seconds")  # those were an earlier attempt's
        await press(pilot, "enter")
        await play.sees(pilot, "compute_reward")
        await press(pilot, "right")
        await play.sees(pilot, "enter takes 20 samples in two seconds")  # those were another worker's


async def test_nothing_is_asked_while_another_tab_is_shown() -> None:
    engine = play.edited_engine()
    async with play.enlarged(Tab.WHY, engine) as pilot:
        await play.sees(pilot, "unknown: the facts fit no single cause")
        await press(pilot, "do:screen.show_tab('Log')")
        count = _count(engine, "speed")
        await pilot.pause(3 * SPEED_POLL_INTERVAL_S)
        assert _count(engine, "speed") == count
