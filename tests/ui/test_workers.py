"""Tiles, rows of the table and the graphs, drawn without an app."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui.machine.gpu.health import judge
from gmg_tui.model import Fps, GpuHealth, GpuSample, Phase, Progress, Worker, WorkerState
from gmg_tui.model.text import SEPARATOR
from gmg_tui.session.protocol import Welcome
from gmg_tui.ui import drawing as graphs
from gmg_tui.ui import worker_text
from gmg_tui.ui.slots import MAX_HISTORY_S, History, SlotView
from gmg_tui.ui.view import View
from gmg_tui.ui.workers import grid
from gmg_tui.ui.workers.rate_line import RateLine, line_rows, rate_lines
from tests.ui import play, sessions
from tests.ui.sessions import NOW
from tests.workers import alerts, changed, diagnosed, worker_of

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
_metrics = st.none() | st.floats(0, 1e13, allow_nan=False)


def _shown(worker: Worker, sample: GpuSample | None = None, history: History | None = None) -> SlotView:
    slot = sessions.session(8).slot(worker.slot) or sessions.session(0, cpus=8).slot(worker.slot)
    assert slot is not None
    worker = diagnosed(worker, sample, NOW)
    return SlotView(slot, worker, sample, history or History(), selected=True, time=NOW)


def _tile(shown: SlotView, width: int = 40, height: int = grid.MIN_TILE_ROWS) -> str:
    rows = [str(row) for row in play.tile(shown, width, height)]
    assert len(rows) == height
    assert {cell_len(row) for row in rows} == {width}
    return "\n".join(rows)


def _row(shown: SlotView, width: int = 80) -> str:
    text = str(play.table_row(shown, width)[0])
    assert cell_len(text) == width
    return text


def _past(worker: Worker, *rates: float) -> History:
    """Five minutes of a worker, or a second at each of the rates."""
    history = History()
    for second, fps in enumerate(rates or [worker.rate or 0.0] * 300):
        history.add(NOW - 300 + second, changed(worker, fps=Fps(fps, fps, fps, 1, settled=fps)))
    return history


# Graphs


def test_a_bar_is_empty_at_0_and_full_at_100_per_cent() -> None:
    assert graphs.bar(0.0, 10) == ("", "░" * 10)
    assert graphs.bar(1.0, 10) == ("█" * 10, "")
    assert graphs.bar(7.0, 10) == ("█" * 10, "")
    assert graphs.bar(-1.0, 10) == ("", "░" * 10)
    assert graphs.bar(0.55, 10) == ("█████▌", "░░░░")


def test_a_braille_line_joins_steps_and_leaves_gaps() -> None:
    assert graphs.braille_line([0.0, 0.0, 1.0, 1.0], 2, 1) == ["⣀⠏"]
    assert graphs.braille_line([0.5] * 4 + [None, None] + [0.0, -3.0], 5, 1) == [" ⠤⠤ ⣀"]
    assert graphs.braille_line([1.0, 9.0, None, None, 0.0, 0.0], 3, 2) == ["⠉  ", "  ⣀"]
    assert graphs.braille_line([1.0, math.nan], 3, 1) == graphs.braille_line([1.0, None], 3, 1)
    assert graphs.braille_line([], 3, 1) == ["   "]
    assert graphs.braille_line([1.0], 0, 1) == [""]


@given(st.lists(_metrics, max_size=90), st.integers(0, 30), st.integers(0, 5))
def test_a_braille_line_fills_its_cells_exactly(values: list[float | None], width: int, height: int) -> None:
    drawn = graphs.braille_line(values, width, height)
    assert [len(row) for row in drawn] == [width] * height
    known = [value for value in values[-2 * width :] if value is not None] if width and height else []
    assert bool("".join(drawn).strip()) is bool(known)


def test_means_of_a_history_skip_unknown_values() -> None:
    history = History()
    for second, rate in {94: 9.0, 95: 1.0, 96: 3.0, 100: 4.0}.items():
        history.fps[second] = rate
    assert [history.mean(start, 2) for start in (94, 96, 98, 100)] == [5.0, 3.0, None, 4.0]


def test_a_history_has_one_rate_for_each_second_and_is_bounded() -> None:
    history, worker = History(), sessions.running(0)
    fps = worker.fps.last
    for time in (1000.2, 1000.9, 1003.0):
        history.add(time, worker)
    assert history.fps == {1000: fps, 1003: fps}
    for time in range(2000, 2000 + MAX_HISTORY_S):
        history.add(time, changed(worker, state=WorkerState.STOPPING))
    assert len(history.fps) == MAX_HISTORY_S
    assert set(history.fps.values()) == {None}


def test_a_history_continues_when_the_clock_is_set_back() -> None:
    history = _past(sessions.running(0), 1.0, 2.0)
    for second in range(3):
        history.add(NOW - 4000 + second, changed(sessions.running(0), fps=Fps(3.0, 3.0, 3.0, 1, settled=3.0)))
    assert list(history.fps.values()) == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert history.end == NOW - 3998


def test_the_history_of_a_restarted_worker_has_a_gap() -> None:
    snapshot = sessions.busy_snapshot(1)
    state = View(Welcome(sessions.session(1), snapshot, ()))
    (worker,) = snapshot.workers
    ended = changed(worker, state=WorkerState.FINISHED)
    for second in range(600):
        state.apply(changed(snapshot, time=sessions.NOW + 1 + second, workers=(ended,)))
    state.apply(changed(snapshot, time=sessions.NOW + 601))
    rate = worker.fps.last
    assert state.histories["gpu0"].fps == {int(sessions.NOW): rate, int(sessions.NOW) + 601: rate}


# The line of the rate


def _line(worker: Worker, *rates: float, median_fps: float | None = None, cells: int = 20) -> RateLine:
    shown = _shown(worker, None, _past(worker, *rates))._replace(median_fps=median_fps)
    return rate_lines([shown], cells)[worker.slot]


def _drawn(line: RateLine, height: int = 2) -> list[str]:
    return [str(row) for row in line_rows(line, height)]


def test_a_dip_of_3_per_cent_is_seen_on_the_common_scale() -> None:
    line = _line(sessions.running(0), *[24e6] * 60, *[23.2e6] * 20, *[24e6] * 20)
    assert line.half_range == 0.1
    for height in (1, 2, 5):
        assert len({row.replace(" ", "") for row in _drawn(line, height)} | {""}) > 1
        assert _drawn(line, height) != _drawn(_line(sessions.running(0), *[24e6] * 100), height)
    styles = {style for row in line_rows(line, 2) for text, style, _ in row._all_pieces() if text.strip()}
    assert styles == {"fps-graph", "warn"}


def test_the_scale_is_common_and_widens_for_a_line_that_leaves_it_but_not_for_a_moment_or_zero() -> None:
    steady, worker = [24e6] * 200, sessions.running(0)
    assert _line(worker, *steady).half_range == 0.1
    assert _line(worker, *steady, *[20e6] * 40, median_fps=24e6).half_range == 0.2
    assert _line(worker, *steady, *[20e6] * 3, median_fps=24e6).half_range == 0.1
    assert _line(worker, *steady, *[0.0] * 40, median_fps=24e6).half_range == 0.1
    entries = [
        _shown(each, None, _past(each, *[rate] * 200))._replace(median_fps=24e6)
        for each, rate in ((worker, 24e6), (changed(worker, slot="gpu1"), 15e6))
    ]
    assert {line.half_range for line in rate_lines(entries, 20).values()} == {0.5}


def test_the_time_span_of_a_rate_line_depends_on_the_known_values() -> None:
    worker = sessions.running(0)
    history = _past(changed(worker, state=WorkerState.COMPILING), *[0.0] * 600)
    assert rate_lines([_shown(worker, None, history)], 20)["gpu0"].seconds == 40
    assert [_line(worker, *[24e6] * seconds).seconds for seconds in (30, 60, 150, 900)] == [40, 80, 200, 200]


def test_unknown_rates_are_a_gap_and_a_restart_has_its_symbol() -> None:
    worker = changed(sessions.running(0), attempt=2, attempt_started=NOW - 40)
    history = _past(worker, *[24e6] * 240)  # then 20 s without a rate
    for second in range(20):
        history.add(NOW - 60 + second, changed(worker, state=WorkerState.STARTING))
    for second in range(40):
        history.add(NOW - 40 + second, worker)
    line = rate_lines([_shown(worker, None, history)], 30)["gpu0"]
    (row,) = _drawn(line, 1)
    assert re.fullmatch(r"[⠒⠐⠂]+ +↻⠒+⠂?", row), row
    again = changed(worker, job=3, job_name="wide", attempt=1)
    (row,) = _drawn(rate_lines([_shown(again, None, history)], 30)["gpu0"], 1)
    assert re.fullmatch(r" +[⠒⠐]+⠂?", row), "the job before is another one"


def test_rates_of_comparable_workers_are_compared_and_others_with_themselves() -> None:
    snapshot = sessions.busy_snapshot(4)
    rates = (24e6, 24e6, 22e6, 24e6)
    workers = [
        changed(worker, fps=Fps(rate, rate, rate, 1, settled=rate))
        for worker, rate in zip(snapshot.workers, rates, strict=True)
    ]
    view = View(Welcome(sessions.session(4), changed(snapshot, workers=tuple(workers)), ()))
    assert "22,000,000 FPS   −8.3 %" in _tile(view.slot_view("gpu2"), 60)
    assert "24,000,000 FPS   +0.0 %" in _tile(view.slot_view("gpu1"), 60)
    others = tuple(changed(worker, given=("-B", str(i))) for i, worker in enumerate(workers))
    view = View(Welcome(sessions.session(4), changed(snapshot, workers=others), ()))
    assert "22,000,000 FPS   +0.0 %" in _tile(view.slot_view("gpu2"), 60)


def test_tiles_grow_with_the_window() -> None:
    view = View(Welcome(sessions.session(8), sessions.busy_snapshot(8), ()))
    heights = {rows: grid.plan(view, 160, rows).tile_height for rows in (26, 46, 68, 200)}
    assert heights == {26: 8, 46: 8, 68: 19, 200: 19}
    assert all(grid.plan(view, 160, rows).height <= rows - grid.MIN_LOG_ROWS for rows in range(20, 200))
    tall = _tile(_shown(sessions.running(0), sessions.sample(0), _past(sessions.running(0))), 40, 14)
    assert len(tall.splitlines()) == 14


# The table


@pytest.mark.parametrize("slot", ["gpu0", "gpu0-mig11", "node-117/gpu0-mig11"])
@pytest.mark.parametrize("width", range(60, 90, 3))
def test_values_in_a_row_are_separated_and_dropped_when_they_do_not_fit(width: int, slot: str) -> None:
    worker = changed(sessions.running(0), fps=Fps(192_104_233.0, 1.0, 1.0, 1, settled=192_104_233.0))
    sample = changed(sessions.sample(0), memory_used_mib=80 * 1024.0, memory_total_mib=80 * 1024.0, gpu_util_pct=100.0)
    shown = _shown(worker, sample)
    shown = shown._replace(slot=changed(shown.slot, name=slot), worker=changed(worker, slot=slot))
    figures = _row(shown, width).partition("192,104,233")[2].split()
    known = [figure for figure in figures if figure[0].isdigit()]
    assert known == ["100", "80.0/80.0", "612", "61"][: len(known)]
    assert len(known) >= (2 if slot == "gpu0" else 0)


# Tiles


def _columns_of(text: str, *words: str) -> list[tuple[int, int]]:
    rows = text.splitlines()
    return [next((y, row.index(word)) for y, row in enumerate(rows) if word in row) for word in words]


def test_nothing_moves_when_a_digit_is_added() -> None:
    few = changed(sessions.running(0), fps=Fps(9_999_999.0, 1.0, 1.0, 1, settled=9_999_999.0), n_envs=512)
    many = changed(few, fps=Fps(192_104_233.0, 1.0, 1.0, 1, settled=192_104_233.0), n_envs=512)
    low = changed(sessions.sample(0), gpu_util_pct=0.0, power_w=71.0, temperature_c=9.0, memory_used_mib=0.0)
    high = changed(low, gpu_util_pct=100.0, power_w=700.0, temperature_c=101.0, memory_used_mib=81_559.0)
    labels = (" FPS", "512 envs", " %", "/700 W", " °C", " / 79.6 GiB")
    assert _columns_of(_tile(_shown(few, low)), *labels) == _columns_of(_tile(_shown(many, high)), *labels)


@pytest.mark.parametrize("width", [38, 60])
def test_a_rate_that_is_not_current_is_dim_and_has_its_age(width: int) -> None:
    worker = changed(sessions.running(0), alerts=alerts(NOW - 48.0, silent="no FPS line"))
    shown = _shown(worker, sessions.sample(0))
    assert "no FPS line for 48 s" in _tile(shown, width)
    assert "no FPS line for 48 s" in _row(shown, 140)
    assert worker_text.rate_style(worker) == "dim"
    assert worker_text.rate_style(sessions.running(0)) == "fps"


def test_unknown_values_are_a_dash_and_unsupported_ones_are_labelled() -> None:
    silent = GpuSample("GPU-00000000")
    text = _tile(_shown(Worker("gpu0", 0, WorkerState.WAITING, NOW - 5.0), silent))
    assert "– FPS" in text
    assert text.count("n/a") == 4
    assert " 0 " not in text
    assert "n/a" in _row(_shown(Worker("gpu0", 0, WorkerState.WAITING), silent))
    assert "no figures yet" in _tile(_shown(Worker("gpu0", 0, WorkerState.WAITING)))


@pytest.mark.parametrize(
    ("of_worker", "of_sample", "texts"),
    [
        ({}, {"throttle": ("thermal",)}, ("throttled: thermal",)),
        ({"alerts": alerts(cache="recovered from a cache race")}, {}, ("recovered from a cache race",)),
        (
            {"state": WorkerState.FAILED, "reason": "out of memory", "args": ("-B", "16384"), "fps": None},
            {},
            ("with -B 16384", "out of memory"),
        ),
        (
            {"alerts": alerts(cpu="something else")},
            {"lost": True, "error": "it is lost (Xid 79)"},
            ("GPU lost: it is lost",),
        ),
    ],
)
def test_a_tile_shows_what_is_wrong(
    of_worker: dict[str, object], of_sample: dict[str, object], texts: tuple[str, ...]
) -> None:
    text = _tile(_shown(changed(sessions.running(0), **of_worker), changed(sessions.sample(0), **of_sample)))
    assert all(each in text for each in texts)


def test_late_metrics_show_their_age_and_do_not_hide_the_phase() -> None:
    late = changed(sessions.sample(0), age_s=7.4, throttle=())
    worker = changed(sessions.running(0), progress=None)
    assert "GPU metrics are 7 s old" in _tile(_shown(worker, late))
    assert "GPU metrics are 7 s old" in _row(_shown(worker, late), 120)
    compiling = changed(worker, state=WorkerState.COMPILING, phase=Phase.COMPILING, phase_since=NOW - 20.0)
    assert "compiling kernels" in _row(_shown(compiling, late), 80)
    assert "usually 9 s" in play.table_row(_shown(changed(compiling, phase_usual_s=9.0)), 80)[1]
    assert "usually" not in play.table_row(_shown(changed(compiling, phase_usual_s=0.4)), 80)[1], "0 s says nothing"


def test_a_silent_driver_is_shown_with_the_duration_and_its_metrics_are_na() -> None:
    silent = GpuSample("GPU-00000000", error="no answer from the driver", age_s=83.0)
    shown = _shown(changed(sessions.running(0), progress=None), silent)
    assert "no answer from the driver for 1:23" in " ".join(_tile(shown).split())
    assert _tile(shown).count("n/a") == 4
    assert "no answer from the driver for 1:23" in _row(shown, 160)
    assert _row(shown).split()[-4:] == ["n/a"] * 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": WorkerState.WAITING, "reason": "for gpu0 to write the mesh caches"}, "waiting for gpu0"),
        ({"state": WorkerState.RESTARTING, "restart_at": NOW + 6.0, "attempt": 1}, "attempt 2 starts in 6 s"),
        ({"state": WorkerState.RESTARTING, "reason": "for 12.1 GiB on gpu0 to be released"}, "waiting for 12.1 GiB"),
        ({"state": WorkerState.STOPPING, "stopping": "SIGTERM sent, waiting"}, "SIGTERM sent"),
        ({"state": WorkerState.FAILED, "reason": "out of memory"}, "out of memory"),
        ({"state": WorkerState.COMPILING, "phase": Phase.COMPILING}, "compiling kernels"),
        ({"state": WorkerState.COMPILING, "alerts": alerts(stuck="no output for 74 s")}, "no output for 74 s"),
        ({"alerts": alerts(cpu="runs on the CPU")}, "runs on"),
    ],
)
def test_what_a_worker_waits_for_is_shown_on_its_tile_in_its_row_and_below_the_table(
    changes: dict[str, object], words: str
) -> None:
    worker = changed(sessions.running(0), fps=None, **changes)
    shown = _shown(worker, sessions.sample(0))
    assert words in _tile(shown)
    assert words in _row(shown)
    if worker.state is not WorkerState.COMPILING or worker.stuck:
        assert words in play.table_row(shown, 80)[1]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_trouble_that_does_not_fit_beside_the_history_is_marked_in_the_state(width: int) -> None:
    worker = changed(sessions.running(0), alerts=alerts(cpu="runs on the CPU"))
    history = _past(worker)
    text = _row(_shown(worker, sessions.sample(0), history), width)
    assert "⠒" in text
    assert "⚠ running" in text
    assert ("runs on the CPU" in text) is (width >= 100)
    assert "● running" in _row(_shown(sessions.running(0), sessions.sample(0), history), width)


def test_a_broken_gpu_is_one_red_line_before_milder_trouble() -> None:
    broken = judge(GpuHealth(ecc_uncorrected=2, pcie_width=8, pcie_width_max=16))
    shown = _shown(sessions.running(0), changed(sessions.sample(0), health=broken, throttle=("thermal",)))
    notes = worker_text.notes(shown)
    assert [(text[:20], style) for text, style in notes] == [
        ("2 ECC errors, uncorr", "error"),
        ("throttled: thermal; ", "warn"),
    ]
    assert "2 ECC errors, uncorrected" in _tile(shown)
    lost = GpuSample("GPU-0", lost=True, error="the GPU is lost", health=broken)
    shown = _shown(sessions.running(0), lost)
    assert [text for text, _ in worker_text.notes(shown, advice=False)] == ["GPU lost: the GPU is lost"]


_workers = st.builds(
    worker_of,
    slot=st.sampled_from(["gpu0", "cpu0"]),
    index=st.just(0),
    state=st.sampled_from(WorkerState),
    state_since=st.floats(0, 1e7),
    phase=st.sampled_from(Phase),
    phase_since=st.floats(0, 1e7),
    phase_usual_s=st.none() | st.floats(0, 1e6),
    attempt=st.integers(0, 999),
    pid=st.none() | st.integers(1, 4_000_000),
    reason=st.none() | st.text(max_size=90),
    fps=st.none() | st.builds(Fps, *[st.floats(0, 1e13)] * 3, st.integers(1, 10**9), _metrics),
    n_envs=st.none() | st.integers(0, 10**9),
    progress=st.none() | st.builds(Progress, st.floats(0, 1e9), st.floats(0, 1e9), st.just("it"), _metrics),
    alerts=st.text(min_size=1, max_size=40).map(lambda text: alerts(stuck=text)) | st.just(()),
    stopping=st.none() | st.text(min_size=1, max_size=40),
    restart_at=_metrics,
    cpu_pct=_metrics,
    memory_rss_mib=_metrics,
    last_line=st.text(max_size=90),
)
_samples = st.none() | st.builds(
    GpuSample,
    uuid=st.just("GPU-00000000"),
    lost=st.booleans(),
    error=st.none() | st.text(max_size=60),
    gpu_util_pct=_metrics,
    memory_used_mib=_metrics,
    memory_total_mib=_metrics,
    temperature_c=_metrics,
    power_w=_metrics,
    power_limit_w=_metrics,
    sm_clock_mhz=_metrics,
    throttle=st.none() | st.lists(st.text(max_size=20), max_size=3).map(tuple),
)


@given(_workers, _samples, st.integers(grid.MIN_TILE_COLUMNS, 90))
def test_tiles_and_rows_keep_their_size_with_any_values(worker: Worker, sample: GpuSample | None, width: int) -> None:
    shown = _shown(worker, sample)
    drawn = _tile(shown, width) + _row(shown, 60 + width)
    assert not _CONTROL.search(drawn)


def test_a_tile_shows_neither_half_a_name_nor_the_line_before_an_attempt() -> None:
    worker = changed(sessions.running(0), last_line=f"{SEPARATOR}attempt 2 · 2026-11-25 07:00:00 · -B 4096")
    head, *rows = _tile(_shown(worker, sessions.sample(0), _past(worker)), 40).splitlines()
    assert "· H100 80GB " in head
    assert not any("attempt" in row for row in rows)


async def test_the_line_below_the_table_ends_with_a_sign_where_it_is_cut() -> None:
    app = play.edited(args=tuple(f"--option-{number}" for number in range(30)))
    async with app.run_test(size=(80, 24)) as pilot:
        await play.sees(pilot, "--option-0")
        line = next(row for row in play.screen(app) if "--option-0" in row and "Log" not in row)
        assert line.rstrip().endswith("…")
