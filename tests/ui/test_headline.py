"""The headline over everything, and the lines of groups."""

from functools import partial

import pytest
from rich.cells import cell_len

from gmg_tui.model import Phase, Snapshot, WorkerState
from gmg_tui.session.protocol import Welcome
from gmg_tui.ui.header import headline, state_counts
from gmg_tui.ui.view import View
from tests.ui import play, ranks, sessions
from tests.ui.play import FakedApp
from tests.ui.sessions import NOW
from tests.workers import changed


def _headline(snapshot: Snapshot, width: int) -> str:
    state = View(Welcome(sessions.session(len(snapshot.workers)), snapshot, ()))
    text = str(headline(state, width))
    assert cell_len(text) == width
    return text


def test_the_headline_sums_running_workers_and_counts_each_once() -> None:
    text = _headline(sessions.varied_snapshot(), 160)
    running = [w for w in sessions.varied_snapshot().workers if w.state is WorkerState.RUNNING]
    total = sum(w.rate or 0.0 for w in running)
    assert f"Σ {total:,.0f} FPS" in text
    assert "1 compiling  3 running  1 stopping  1 restarting  1 failed  2 alerts  1 stuck" in text
    assert "00:41:07" in text


def test_the_headline_does_not_count_a_worker_as_compiling_that_saves_its_kernels_at_the_end() -> None:
    saving = changed(sessions.running(0), fps=None, state=WorkerState.COMPILING, phase=Phase.SAVING)
    text = _headline(changed(sessions.busy_snapshot(1), workers=(saving,)), 120)
    assert "1 saving" in text
    assert "compiling" not in text


@pytest.mark.parametrize("width", range(60, 160, 7))
@pytest.mark.parametrize("snapshot", [sessions.varied_snapshot(), sessions.ended_snapshot()])
def test_the_headline_never_cuts_the_total_nor_the_clock(snapshot: Snapshot, width: int) -> None:
    text = _headline(snapshot, width)
    assert " FPS " in text
    assert "Σ " in text
    assert text.rstrip().endswith("00:41:07")
    assert "fr" in text
    left_out = [count for count, _ in state_counts(snapshot.workers) if count not in text]
    assert ("  …  " in text) == bool(left_out)


@pytest.mark.parametrize(
    ("written", "running", "shown"),
    [
        (("-B", "4096"), [("-B", "8192")] * 2, "franka.py -B 8192"),
        (("-e", "run-{i}"), [("-e", "run-0"), ("-e", "run-1")], "franka.py -e run-{i}"),
    ],
)
def test_the_headline_shows_the_running_arguments(
    written: tuple[str, ...], running: list[tuple[str, ...]], shown: str
) -> None:
    session = sessions.session(2)
    session = changed(session, spec=changed(session.spec, args=written))
    workers = tuple(changed(sessions.running(i), args=args) for i, args in enumerate(running))
    state = View(Welcome(session, changed(sessions.busy_snapshot(2), workers=workers), ()))
    assert f"{shown}  " in str(headline(state, 140))


def test_the_headline_has_the_whole_name_and_the_name_of_the_script_without_its_folder() -> None:
    session = sessions.session(2)
    spec = changed(session.spec, name="franka-day-1", script="/home/ada/sim/franka.py", simulate=2)
    state = View(Welcome(changed(session, spec=spec), sessions.busy_snapshot(2), ()))
    for width in (80, 160):
        text = str(headline(state, width))
        assert " simulated franka-day-1  " in text
        assert "2 running" in text
        assert "/home" not in text
        assert ("  franka.py" in text) == (width == 160)  # whole or not at all
    assert "  franka.py -B" in text


# Groups on the screen: their lines, their ranks' names, and what holds the ranks together


def test_a_rate_reported_by_rank_0_for_the_group_counts_once() -> None:
    state = View(Welcome(sessions.session(8), ranks.whole(), ()))
    assert "Σ 384,000 FPS" in str(headline(state, 120))


@pytest.mark.parametrize(("size", "text"), [((160, 48), "FPS counted in rank 0"), ((80, 24), " in rank 0 ")])
async def test_ranks_without_a_rate_point_to_rank_0(size: tuple[int, int], text: str) -> None:
    app = play.app_of(play.engine_of(ranks.whole()))
    async with app.run_test(size=size) as pilot:
        await play.sees(pilot, text)
        assert play.shown(app).count(text) == 6
        assert "– FPS" not in play.shown(app)


def _in_one_line(app: FakedApp, words: str) -> bool:
    """Whether the screen shows `words`, wherever it breaks them into rows."""
    return words in " ".join(play.shown(app).split())


@pytest.mark.parametrize(
    ("snapshot", "since_s", "cases"),
    [
        (
            ranks.summed(),
            (2352.0,) * 4,
            {
                "r": "Restart group g0, 4 ranks? gpu0 has been running for",
                "right x": "Stop group g0, 4 ranks?",
                "down X": "Kill group g0, 4 ranks now?",
                "space down space r": "Restart group g0, 4 ranks?",
                "e": "Edit group g0, 4 ranks",
            },
        ),
        (ranks.whole(), (2352.0,) * 8, {"space down down down down down space x": "Stop groups g0 and g1, 8 ranks?"}),
        (ranks.summed(), (2.0, *(2352.0,) * 3), {"r": "Restart group g0, 4 ranks? gpu1 has been running"}),
    ],
    ids=["one", "two", "a rank has just started"],
)
async def test_a_confirmation_names_the_whole_group(
    snapshot: Snapshot, since_s: tuple[float, ...], cases: dict[str, str]
) -> None:
    pairs = zip(snapshot.workers, since_s, strict=True)
    workers = tuple(changed(worker, attempt_started=NOW - seconds) for worker, seconds in pairs)
    app = play.app_of(play.engine_of(changed(snapshot, workers=workers)))
    async with app.run_test(size=(100, 30)) as pilot:
        await play.sees(pilot, f"{play.LOG_LINES} lines")
        for keys, words in cases.items():
            await play.press(pilot, *keys.split())
            seen = partial(_in_one_line, app, words)
            await play.until(pilot, seen, words)
            await play.press(pilot, "escape")


async def test_killing_a_rank_that_waits_for_the_end_of_others_asks_as_they_run() -> None:
    snapshot = ranks.summed()
    first = changed(snapshot.workers[0], state=WorkerState.STOPPING)
    app = play.app_of(play.engine_of(changed(snapshot, workers=(first, *snapshot.workers[1:]))))
    async with app.run_test(size=(100, 30)) as pilot:
        await play.press(pilot, "X")
        await play.sees(pilot, "Kill group g0, 4 ranks now?")
        assert play.asked(app.engine) == []
