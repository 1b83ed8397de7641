"""Cards, rows of the table, the headline and the graphs, drawn without an app."""

from __future__ import annotations

import re
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui.model import Figures, Fps, GpuReading, Phase, Progress, Snapshot, Worker, WorkerState
from gmg_tui.protocol import Welcome
from gmg_tui.ui import themes
from gmg_tui.ui.history import KEPT_S, History, buckets
from gmg_tui.ui.look import ASCII, UNICODE, Look
from gmg_tui.ui.renderables import card, graphs, table
from gmg_tui.ui.renderables.headline import headline
from gmg_tui.ui.renderables.words import Shown
from gmg_tui.ui.state import UiState
from tests.ui import play, sessions, sweeps
from tests.ui.sessions import changed

_LOOK = play.app_of(play.engine_of(sessions.busy_snapshot(1)), theme=themes.NAMES[0]).look
_ASCII = Look(_LOOK.styles, ASCII)
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
_figures = st.none() | st.floats(0, 1e13, allow_nan=False)


def _shown(worker: Worker, reading: GpuReading | None = None, history: History | None = None) -> Shown:
    slot = sessions.session(8).slot(worker.slot) or sessions.session(0, cpus=8).slot(worker.slot)
    assert slot is not None
    return Shown(slot, worker, reading, history or History(), chosen=True, time=sessions.NOW)


def _card(shown: Shown, width: int = 40, *, tall: bool = False, look: Look = _LOOK) -> str:
    rows = ["".join(segment.text for segment in row) for row in card.card(shown, width, look, tall=tall)]
    assert len(rows) == (card.TALL_HEIGHT if tall else card.HEIGHT)
    assert {cell_len(row) for row in rows} == {width}
    return "\n".join(rows)


def _row(shown: Shown, width: int = 80, look: Look = _LOOK) -> str:
    text = table.row(shown, table.columns(("gpu0",), width, on_cards=True), look).strip().text
    assert cell_len(text) == width
    return text


# Graphs


def test_a_bar_is_empty_at_nothing_full_at_all_and_never_longer() -> None:
    assert graphs.bar(0.0, 10, UNICODE) == ("", "░" * 10)
    assert graphs.bar(1.0, 10, UNICODE) == ("█" * 10, "")
    assert graphs.bar(7.0, 10, UNICODE) == ("█" * 10, "")
    assert graphs.bar(-1.0, 10, UNICODE) == ("", "░" * 10)
    assert graphs.bar(0.55, 10, UNICODE) == ("█████▌", "░░░░")
    assert graphs.bar(0.55, 10, ASCII) == ("######", "....")


def test_a_history_tells_nothing_from_little_and_unknown_from_full() -> None:
    assert graphs.history([None, 0.0, 0.001, 50.0, 100.0, 900.0], 100.0, 8, UNICODE) == "    ▁▄██"
    assert graphs.history([], 0.0, 3, UNICODE) == "   "
    assert graphs.history([1.0], 1.0, 0, UNICODE) == ""


@given(st.lists(_figures, max_size=40), st.floats(0, 1e13, allow_nan=False), st.integers(0, 30), st.booleans())
def test_a_history_fills_its_width_exactly(
    values: list[float | None], top: float, width: int, ascii_only: bool
) -> None:
    drawn = graphs.history(values, top, width, ASCII if ascii_only else UNICODE)
    assert len(drawn) == width


def test_buckets_are_means_aligned_to_the_clock() -> None:
    points: deque[float | None] = deque([9.0, 1.0, 3.0, None, None, None, 4.0])
    assert buckets(points, 100, 9, 2) == [5.0, 3.0, None, 4.0]
    assert buckets(points, 101, 9, 2) == [9.0, 2.0, None, 4.0]
    assert buckets(points, 101, 2, 2) == [None, 4.0]


def test_a_history_carries_on_over_seconds_without_news_and_is_bounded() -> None:
    history = History()
    worker = sessions.running(0)
    history.add(1000.2, worker, None)
    history.add(1000.9, worker, None)
    assert len(history.fps) == 1
    history.add(1005.0, worker, None)
    assert len(history.fps) == 6
    history.add(1000.0 + 10 * KEPT_S, changed(worker, state=WorkerState.STOPPING), None)
    assert len(history.fps) == KEPT_S
    assert history.fps[-1] is None
    assert history.fps[-2] == worker.fps.last  # type: ignore[union-attr]


# Cards


def test_a_running_card_has_every_figure_and_its_unit() -> None:
    shown = _shown(sessions.running(0), sessions.reading(0))
    text = _card(shown)
    for words in ("gpu0", "H100", "running 39:12", "24,013,029 FPS", "4,096 envs", " 97 %", "30.2 / 79.6 GiB"):
        assert words in text
    for words in ("612 / 700 W", "61 °C", "1980 MHz"):
        assert words in text


@pytest.mark.parametrize("width", [38, 40, 60])
@pytest.mark.parametrize("fps", [0.0, 12.34, 24_013_029.0, 999_999_999.0])
@pytest.mark.parametrize("n_envs", [1, 4096, 1_048_576])
def test_environments_stand_beside_large_digits_and_small_ones(width: int, fps: float, n_envs: int) -> None:
    worker = changed(sessions.running(0), fps=Fps(fps, fps, fps, 1, rate=fps * 2 + 1), n_envs=n_envs)
    noun = "env" if n_envs == 1 else "envs"
    for tall in (False, True):
        text = _card(_shown(worker, sessions.reading(0)), width, tall=tall)
        assert f"{n_envs:,} {noun}" in text
        assert "FPS" in text
        assert "now" in text


def test_nothing_known_is_a_dash_and_not_supported_is_said_never_nought() -> None:
    silent = GpuReading("GPU-00000000")
    text = _card(_shown(Worker("gpu0", 0, WorkerState.WAITING, 5.0), silent))
    assert "– FPS" in text
    assert text.count("n/a") == 4
    assert " 0 " not in text
    assert "n/a" in _row(_shown(Worker("gpu0", 0, WorkerState.WAITING), silent))
    assert "no figures of the card" in _card(_shown(Worker("gpu0", 0, WorkerState.WAITING)))


@pytest.mark.parametrize(("used", "shown"), [(0.0, "0.0 / 79.6"), (81_559.0, "79.6 / 79.6"), (90_000.0, "87.9 / 79.6")])
def test_memory_at_its_edges(used: float, shown: str) -> None:
    reading = changed(sessions.reading(0), memory_used_mib=used, gpu_util_pct=100.0)
    text = _card(_shown(sessions.running(0), reading))
    assert shown in text
    assert "100 %" in text


@pytest.mark.parametrize(("width", "times"), [(36, 1), (46, 2), (70, 1)])
def test_a_throttled_card_says_why_beside_its_clock_where_there_is_room(width: int, times: int) -> None:
    text = _card(_shown(sessions.running(0), changed(sessions.reading(0), throttle=("power cap",))), width)
    assert "throttled: power cap" in text
    assert text.count("throttled") == times


def test_a_throttled_card_hides_no_history_in_a_narrow_row() -> None:
    worker = changed(sessions.running(0), progress=None)
    free, slowed = (changed(sessions.reading(0), throttle=throttle) for throttle in ((), ("power cap",)))
    assert _row(_shown(worker, slowed), 80) == _row(_shown(worker, free), 80)


def test_a_lost_card_is_told_first_on_card_and_row() -> None:
    lost = GpuReading("GPU-00000000", lost=True, error="GPU is lost (Xid 79)")
    worker = changed(sessions.running(0), warnings=("something else",))
    assert "card lost: GPU is lost (Xid 79)" in _card(_shown(worker, lost))
    assert "card lost" in _row(_shown(worker, lost))


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_row_shows_the_fps_in_full_and_environments_where_there_is_room(width: int) -> None:
    text = _row(_shown(sessions.running(0), sessions.reading(0)), width)
    assert "24,013,029" in text
    assert ("4,096" in text) == (width >= 120)
    assert text.rstrip().endswith("30.2/79.6  612  61")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": WorkerState.WAITING, "reason": "for gpu0 to write the mesh caches"}, "waits for gpu0"),
        (
            {"state": WorkerState.BUILDING, "phase": Phase.INITIALISING, "reason": "held for gpu0 to write"},
            "held for gpu0",
        ),
        ({"state": WorkerState.RESTARTING, "restart_in_s": 6.0, "attempt": 1}, "attempt 2 begins in 6 s"),
        ({"state": WorkerState.RESTARTING, "reason": "for 12.1 GiB on gpu0 to be released"}, "waits for 12.1 GiB"),
        ({"state": WorkerState.STOPPING, "stopping": "SIGTERM sent, waiting"}, "SIGTERM sent"),
        ({"state": WorkerState.FAILED, "reason": "out of memory"}, "out of memory"),
        ({"state": WorkerState.COMPILING, "phase": Phase.COMPILING}, "compiling kernels"),
        ({"state": WorkerState.COMPILING, "stuck": "no output for 74 s"}, "no output for 74 s"),
        ({"warnings": ("runs on the CPU",)}, "runs on"),
    ],
)
def test_what_keeps_a_worker_is_said_on_its_card_in_its_row_and_below_the_table(
    changes: dict[str, object], words: str
) -> None:
    worker = changed(sessions.running(0), fps=None, **changes)
    shown = _shown(worker, sessions.reading(0))
    assert words in _card(shown)
    assert words in _row(shown)
    if worker.state is not WorkerState.COMPILING or worker.stuck:
        assert words in table.detail(shown, 80, _LOOK).strip().text


def test_nothing_turns_on_the_card_of_a_worker_that_is_held_and_no_time_is_foretold() -> None:
    ready = changed(sessions.running(0), fps=None, state=WorkerState.BUILDING, phase=Phase.INITIALISING, phase_s=9.0)
    assert "no time known" in _card(_shown(ready))
    held = _card(_shown(changed(ready, reason="held for gpu0 to write the mesh caches", phase_usual_s=20.0)))
    assert "… initialising 9 s" in held
    assert "usually" not in held
    assert "no time known" not in held


def test_a_change_of_arguments_is_compared() -> None:
    before = Figures(1, (), fps=20e6, n_envs=2048, memory_peak_mib=10_240.0)
    worker = changed(sessions.running(0), before=before, now=None)
    assert "FPS 20.0M → –" in _card(_shown(worker, sessions.reading(0)), 60)
    worker = changed(worker, now=Figures(2, (), fps=24e6, n_envs=4096, memory_peak_mib=20_480.0))
    text = table.detail(_shown(worker, sessions.reading(0)), 120, _LOOK).strip().text
    assert "FPS 20.0M → 24.0M (+20 %)  envs 2,048 → 4,096  VRAM 10.0 → 20.0 GiB" in text


_workers = st.builds(
    Worker,
    slot=st.sampled_from(["gpu0", "cpu0"]),
    index=st.just(0),
    state=st.sampled_from(WorkerState),
    state_s=st.floats(0, 1e7),
    phase=st.sampled_from(Phase),
    phase_s=st.floats(0, 1e7),
    phase_usual_s=st.none() | st.floats(0, 1e6),
    attempt=st.integers(0, 999),
    pid=st.none() | st.integers(1, 4_000_000),
    reason=st.none() | st.text(max_size=90),
    fps=st.none() | st.builds(Fps, *[st.floats(0, 1e13)] * 3, st.integers(1, 10**9), _figures),
    n_envs=st.none() | st.integers(0, 10**9),
    progress=st.none() | st.builds(Progress, st.floats(0, 1e9), st.floats(0, 1e9), st.just("it"), _figures),
    stuck=st.none() | st.text(min_size=1, max_size=40),
    stopping=st.none() | st.text(min_size=1, max_size=40),
    restart_in_s=_figures,
    cpu_pct=_figures,
    memory_rss_mib=_figures,
    last_line=st.text(max_size=90),
)
_readings = st.none() | st.builds(
    GpuReading,
    uuid=st.just("GPU-00000000"),
    lost=st.booleans(),
    error=st.none() | st.text(max_size=60),
    gpu_util_pct=_figures,
    memory_used_mib=_figures,
    memory_total_mib=_figures,
    temperature_c=_figures,
    power_w=_figures,
    power_limit_w=_figures,
    sm_clock_mhz=_figures,
    throttle=st.none() | st.lists(st.text(max_size=20), max_size=3).map(tuple),
)


@given(_workers, _readings, st.integers(card.MIN_WIDTH, 90), st.booleans(), st.booleans())
def test_whatever_is_known_a_card_and_a_row_keep_their_size(
    worker: Worker, reading: GpuReading | None, width: int, tall: bool, ascii_only: bool
) -> None:
    look = _ASCII if ascii_only else _LOOK
    shown = _shown(worker, reading)
    drawn = _card(shown, width, tall=tall, look=look) + _row(shown, 60 + width, look)
    assert drawn.isascii() or not ascii_only
    assert not _CONTROL.search(drawn)


# The headline


def _headline(snapshot: Snapshot, width: int) -> str:
    state = UiState(Welcome(1, sessions.session(len(snapshot.workers)), snapshot, ()))
    text = headline(state, width, _LOOK).strip().text
    assert cell_len(text) == width
    return text


def test_the_headline_sums_what_runs_and_counts_every_worker_once() -> None:
    text = _headline(sessions.varied_snapshot(), 160)
    running = [w for w in sessions.varied_snapshot().workers if w.state is WorkerState.RUNNING]
    total = sum(w.fps.last for w in running if w.fps)
    assert f"Σ {total:,.0f} FPS" in text
    assert "3 running  1 compiling  1 restarting  1 stopping  1 failed  1 stuck" in text
    assert "00:41:07" in text


@pytest.mark.parametrize("width", range(60, 160, 7))
@pytest.mark.parametrize(
    "snapshot", [sessions.varied_snapshot(), sessions.troubled_snapshot(), sessions.ended_snapshot()]
)
def test_the_headline_never_cuts_the_total_nor_the_clock(snapshot: Snapshot, width: int) -> None:
    text = _headline(snapshot, width)
    assert " FPS " in text
    assert "Σ " in text
    assert text.rstrip().endswith("00:41:07")
    assert "fr" in text


def test_the_headline_of_a_sweep_counts_no_slot_whose_last_job_has_ended() -> None:
    text = _headline(sweeps.ended_snapshot(sweeps.jobs(30, 30)), 120)
    assert "Σ – FPS" in text
    assert "finished" not in text


def test_the_headline_has_no_total_before_any_worker_has_printed_one() -> None:
    waiting = tuple(Worker(f"gpu{i}", i, WorkerState.WAITING) for i in range(2))
    text = _headline(Snapshot(sessions.NOW, 3.0, waiting), 100)
    assert "Σ – FPS" in text
    assert "FPS/W" not in text
