"""The Metrics tab: every metric with its history and extremes, filtered, and charted one by one."""

from gmg_tui.model import Curve, Point
from gmg_tui.ui.view import Tab
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import press


def _reported(*names: str) -> FakeEngine:
    engine, steps = play.edited_engine(), range(0, 100, 10)
    for number, name in enumerate(names):
        values = [float(number + step) for step in steps]
        times = [sessions.NOW - 90 + step for step in steps]
        low, high = Point(times[0], 0, values[0]), Point(times[-1], 90, values[-1])
        curve = Curve(tuple(times), tuple(steps), tuple(values), 1234, low, high)
        engine.curves_of.setdefault("gpu0", {})[name] = curve
    return engine


async def test_metrics_are_listed_by_group_with_history_best_and_range_rewards_first() -> None:
    async with play.enlarged(Tab.METRICS, _reported("Loss/value", "Train/mean_reward", "lr"), size=(120, 30)) as pilot:
        await play.sees(pilot, "SM clock", "progress")
        assert tables.headings(pilot.app) == "group metric value history best at step lowest highest"
        assert tables.rows(pilot.app) == [
            "Train mean_reward 91 ⣀⠤⠔⠒⠉ 91 90 1 91",
            "Loss value 90 ⣀⠤⠔⠒⠉ 0 0 0 90",
            "lr 92 ⣀⠤⠔⠒⠉ 92 90 2 92",
        ]


async def test_enter_shows_the_chart_of_a_metric_and_escape_the_table_again() -> None:
    async with play.enlarged(Tab.METRICS, _reported("Loss/value", "Train/mean_reward"), size=(100, 30)) as pilot:
        await play.sees(pilot, "mean_reward")
        await press(pilot, "enter")
        await play.sees(pilot, "Train/mean_reward  91   best 91 at step 90  1,234 values over steps", "100", "1 of 4")
        await press(pilot, "escape")
        await play.sees(pilot, "lowest", "SM clock")


async def test_the_metrics_of_an_earlier_attempt_or_job_are_not_shown_as_the_current_ones() -> None:
    engine = _reported("old/reward")
    async with play.enlarged(Tab.METRICS, engine, size=(100, 30)) as pilot:
        await play.sees(pilot, "old")
        engine.curves_of["gpu0"] = {}
        engine.push(sessions.edited_snapshot(attempt=3))
        await play.sees(pilot, "No metric has been reported")


async def test_the_keys_scroll_the_facts_below_a_hundred_metrics() -> None:
    async with play.enlarged(Tab.METRICS, _reported(*(f"m{n}" for n in range(100))), size=(100, 30)) as pilot:
        await play.sees(pilot, "m0", "SM clock")
        await press(pilot, "end", "end", "home", "home")
        assert len(tables.rows(pilot.app)) == 100


async def test_metrics_are_asked_for_only_while_they_are_shown() -> None:
    engine = _reported("lr")
    async with play.enlarged(Tab.CHARTS, engine) as pilot:
        await play.sees(pilot, "lowest")
        assert not [request for request in engine.asked if request[0] == "curves"]
