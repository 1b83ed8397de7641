"""The pane: charts, metrics, processes, attempts, setup and events, and the keys that act on it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from textual.widgets import TextArea

from gmg_tui.model import (
    Fps,
    GpuProcess,
    GpuSample,
    Occurrence,
    OccurrenceKind,
    Series,
    Slot,
    Worker,
    WorkerState,
    units,
)
from gmg_tui.model.text import SEPARATOR
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.pane import worker_facts as facts
from gmg_tui.ui.pane.pane import Pane
from gmg_tui.ui.pane.worker_charts import chart_rows
from gmg_tui.ui.slots import History, SlotView
from gmg_tui.ui.view import Tab
from tests.rates import rate
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import asked, click, press
from tests.workers import alerts, changed, reached


def _texts(of: list[Fact]) -> list[str]:
    return [" ".join(f"{fact.label} {fact.text}".split()) for fact in of]


# Rates


def _worker_facts(worker: Worker, history: History) -> Iterator[Fact]:
    return facts.worker_facts(SlotView(sessions.session(4).slots[0], worker, None, history, sessions.NOW))


def test_a_rate_is_shown_with_its_source_and_the_number_printed_last() -> None:
    fps = Fps(24_200_311.0, 23_950_114.0, 24_410_777.0, 812, 24_013_029.0, counted="probe")
    worker = changed(sessions.edited_snapshot().workers[0], fps=fps)
    texts = _texts(list(_worker_facts(worker, History())))
    assert "FPS 24,013,029 now" in texts
    assert "whole attempt 23,950,114 FPS, inside the script" in texts
    assert "printed 24,200,311 FPS, the last of 812 numbers" in texts
    printed = changed(worker, fps=msgspec.structs.replace(fps, counted="printed"))
    assert "whole attempt 23,950,114 FPS, from the lines that the script prints" in _texts(
        list(_worker_facts(printed, History()))
    )


def test_an_ended_worker_has_no_current_values() -> None:
    worker = changed(sessions.edited_snapshot().workers[0], state=WorkerState.STOPPED)
    texts = _texts(list(_worker_facts(worker, History())))
    assert "FPS 23,950,114 over the whole attempt" in texts
    assert not any("now" in text for text in texts)
    sample = sessions.edited_snapshot().samples[0]
    assert _texts(list(facts.gpu_facts(sessions.gpu(0), sample, worker, at_end=True)))[0] == "GPU at the end"


# The GPU


def test_a_gpu_is_shown_with_all_its_metrics_and_their_units() -> None:
    snapshot, gpu = sessions.edited_snapshot(), sessions.gpu(0)
    texts = _texts(list(facts.gpu_facts(gpu, snapshot.samples[0], snapshot.workers[0])))
    for text in (
        "name NVIDIA H100 80GB HBM3",
        "index 0, PCI 00000000:00:00.0",
        "persistence on",
        "GPU 97 %, memory 61 %",
        "VRAM 30.2 of 79.6 GiB",
        "power 612 of 700 W",
        "temperature 61 °C",
        "SM clock 1755 of 1980 MHz",
        "throttled power cap",
        "fan n/a",
        "PCIe in 312, out 4 MiB/s",
        "energy 397 Wh by the attempt, 25.4 kWh in total",
    ):
        assert text in texts, text


# Charts


def _charts(width: int = 80, height: int = 40, **changes: Any) -> list[str]:
    """The lines of the charts of a worker with `changes`."""
    snapshot = sessions.edited_snapshot()
    shown: dict[str, Any] = {
        "slot": sessions.session(4).slots[0],
        "worker": snapshot.workers[0],
        "sample": snapshot.samples[0],
        "series": sessions.edited_series(),
    } | changes
    series, entry = shown.pop("series"), SlotView(history=History(), time=sessions.NOW, **shown)
    return [str(row).rstrip() for row in chart_rows(entry, series, width, height)]


def _plots(rows: list[str]) -> dict[str, list[str]]:
    """The rows of each chart, with their labels, by the chart's title."""
    rows_by_title: dict[str, list[str]] = {}
    for row in rows:
        if row[:1].strip() and "terminal" not in row:
            plot = rows_by_title.setdefault(row.split()[0], [])
        elif row[8:9] in {"│", "┤"}:
            plot.append(row)
    return rows_by_title


def _labels(plot: list[str]) -> list[str]:
    """The labels of a chart's axis, from the top."""
    return [row[:7].strip() for row in plot if row[8] == "┤"]


def test_the_charts_share_one_time_axis_and_show_units() -> None:
    some = tuple(None if 40 <= step < 60 else 95.0 for step in range(142))
    rows = _charts(series=Series("gpu0", sessions.NOW, 4.0, some, some, some, some))
    plots = _plots(rows)
    assert list(plots) == ["FPS", "GPU", "VRAM", "power"]
    for plot in plots.values():
        (line,) = [row[9:] for row in plot if re.search("[\u2801-\u28ff]", row)]
        assert [column for column, dots in enumerate(line) if not "\u2800" < dots < "\u2900"] == list(range(20, 30))
    rows = _charts()
    titles = [row.partition("   ")[0] for row in rows if row[:1].strip()]
    assert titles == ["FPS  24,013,029", "GPU  97 %", "VRAM  30.2 of 79.6 GiB", "power  612 of 700 W"]
    labels = [_labels(plot) for plot in _plots(rows).values()]
    assert labels[1:] == [["100 %", "50 %", "0 %"], ["50 GiB", "0 GiB"], ["500 W", "250 W", "0 W"]]


def test_the_charts_cover_the_newest_attempt_of_a_job_and_end_with_the_worker() -> None:
    rates = tuple(float(step) for step in range(1, 101))
    series = Series("gpu0", sessions.NOW, 1.0, rates, rates, rates, rates)
    worker = sessions.edited_snapshot().workers[0]
    of_job = changed(worker, job=7, newest=changed(worker.newest, started=sessions.NOW - 59))
    ended = changed(of_job, state=WorkerState.FINISHED, state_since=sessions.NOW - 20)
    waiting = changed(worker, job=7, newest=changed(worker.newest, number=0, started=0.0))
    cases = ((of_job, "lowest 41 %  mean 70 %  highest 100 %", 0), (ended, "lowest 41 %  mean 60 %  highest 80 %", 20))
    for shown, span, last_s in cases:
        rows = _charts(series=series, worker=shown)
        assert any(row.startswith("GPU") and span in row for row in rows)
        assert rows[-1].endswith(units.time_of_day(sessions.NOW - last_s))
    assert any(row == "GPU     lowest 41 %  mean 60 %  highest 80 %" for row in _charts(series=series, worker=ended))
    assert any("highest 100 %" in row and "lowest 100 %" in row for row in _charts(series=series, worker=waiting))


def test_unknown_values_are_explained_and_not_drawn_as_zero() -> None:
    unknown = Series("gpu0", sessions.NOW, 1.0, (None,) * 9, (None,) * 9, (None,) * 9, (None,) * 9)
    worker = changed(sessions.edited_snapshot().workers[0], fps=None)
    silent = GpuSample(sessions.gpu(0).uuid, gpu_util_pct=3.0)
    lost = GpuSample(sessions.gpu(0).uuid, lost=True, error="GPU is lost (Xid 79)")
    for sample, why, now in (
        (None, "no sample yet", "GPU  n/a"),
        (silent, "n/a: not reported by the GPU", "GPU  3 %"),
        (lost, "GPU is lost (Xid 79)", "GPU  n/a"),
    ):
        rows = _charts(series=unknown, worker=worker, sample=sample)
        assert sum(why in row for row in rows) == 3
        assert sum("no rate yet" in row for row in rows) == 1
        assert any(row.startswith(now) for row in rows)
        assert not re.search("[\u2801-\u28ff]", "".join(rows))


@pytest.mark.parametrize(("height", "titles"), [(14, 4), (13, 3), (8, 2), (5, 1), (4, 0), (0, 0), (-3, 0)])
def test_the_lowest_charts_are_dropped_if_the_pane_is_low(height: int, titles: int) -> None:
    rows = _charts(height=height)
    assert sum(bool(plot) for plot in _plots(rows).values()) == titles
    assert len(rows) <= max(1, height)


def test_a_cpu_slot_has_one_chart_and_sm_activity_has_one_when_known() -> None:
    slot = sessions.session(0, cpus=2).slots[0]
    rows = _charts(slot=slot, sample=None, height=12, series=Series("cpu0", sessions.NOW, 1.0, (100.0, 140.0)))
    assert list(_plots(rows)) == ["FPS"]
    assert _labels(_plots(rows)["FPS"]) == ["140", "120", "100"]
    series = sessions.edited_series()
    rows = _charts(
        series=changed(series, sm_pct=tuple(41.0 for _ in series.fps)),
        sample=changed(sessions.edited_snapshot().samples[0], sm_pct=41.4),
    )
    assert list(_plots(rows)) == ["FPS", "GPU", "SMs", "VRAM", "power"]


# Tabs


async def test_tab_the_mouse_and_keys_show_each_tab_below_the_workers() -> None:
    app = play.logged(play.edited(), *sessions.log_of(30))
    async with app.run_test(size=(120, 36)) as pilot:
        await play.sees(pilot, "gpu0 log", "30 lines")
        for text in (
            "lowest",
            "SM clock",
            "Xorg",
            "2  running",
            "Command line",
            "unknown: the facts",
            "Nothing has happened yet.",
        ):
            await press(pilot, "tab")
            await play.sees(pilot, text, "H100")
        await press(pilot, "tab", "shift+tab")
        assert app.view.tab is Tab.EVENTS
        await click(pilot, "Setup")
        await play.sees(pilot, "franka.py -B 4096")
        await press(pilot, "p")
        await play.sees(pilot, "Xorg")
        await click(pilot, "Xorg")
        assert app.focused is None
        await press(pilot, "f")
        await play.sees(pilot, "following")


async def test_enter_or_a_click_on_the_selected_worker_enlarges_the_pane_and_escape_restores_it() -> None:
    app = play.edited()
    async with app.run_test(size=(100, 30)) as pilot:
        for open_it in (press(pilot, "enter"), click(pilot, "gpu0 ")):
            await open_it
            await play.sees(pilot, "attempt 2  PID", "1 of 4")
            assert "VRAM GiB" not in play.shown(app)
            await press(pilot, "escape")
            await play.sees(pilot, "gpu3")
            assert "attempt 2  PID" not in play.shown(app)


async def test_keys_scroll_the_tab() -> None:
    async with play.enlarged(Tab.SETUP, size=(60, 12)) as pilot:
        await play.sees(pilot, "Command line")
        await press(pilot, "end")
        await play.sees(pilot, "EGL device 0 is the card")
        await press(pilot, "home", "j", "k")
        await play.sees(pilot, "Command line")


async def test_the_tab_stays_after_a_dialog_closes() -> None:
    async with play.enlarged(Tab.CHARTS) as pilot:
        for close in (("X", "n"), ("e", "escape")):
            await press(pilot, *close)
            await pilot.pause()
            await play.sees(pilot, "attempt 2  PID", "lowest")


async def test_a_hidden_tab_does_not_query_the_engine() -> None:
    engine = play.edited_engine()
    async with play.enlarged(Tab.SETUP, engine) as pilot:
        await play.sees(pilot, "Command line")
        assert ("series", "gpu0") not in engine.asked
        engine.refuse = "the engine is busy"
        await press(pilot, "right")
        await play.sees(pilot, "the engine is busy")
        engine.refuse = ""
        await press(pilot, "left")
        await play.sees(pilot, "Command line")
        assert "busy" not in play.shown(pilot.app)


async def test_setup_shows_command_environment_log_and_why_there_is_no_egl_device() -> None:
    engine = play.edited_engine()
    engine.details_of["gpu1"] = msgspec.structs.replace(
        sessions.details("gpu1"), egl="unset: it is not open to this user"
    )
    async with play.enlarged(Tab.SETUP, engine, slot="gpu1", size=(120, 36)) as pilot:
        await play.sees(
            pilot,
            "/opt/venv/bin/python franka.py -B 4096 -e run-1 --seed 1",
            "-B 4096 -e run-{i} --seed {seed}",
            "GS_CACHE=/tmp/cache-{i}",
            "CUDA_VISIBLE_DEVICES=1",
            "DISPLAY LOCAL_RANK",
            "sessions/franka-1/logs/gpu1.log",
            "gmg-tui logs franka-1 gpu1",
            "unset: it is not open",
        )


async def test_in_a_sweep_setup_shows_the_values_and_the_log_of_the_job() -> None:
    app = sweeps.app()
    async with app.run_test(size=(160, 36)) as pilot:
        await press(pilot, "enter", "do:screen.show_tab('Setup')")
        await play.sees(pilot, "job #13 ", "sweep-1/logs/0013-", "gmg-tui logs sweep-1 13")


# Processes and events


def _with(*processes: GpuProcess) -> FakeEngine:
    engine = play.edited_engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(sessions.details(), processes=processes)
    return engine


def _process(pid: int) -> GpuProcess:
    return GpuProcess(pid, "python", float(pid), "eve", f"job-{pid}")


async def test_each_process_is_shown_with_its_owner() -> None:
    async with play.enlarged(Tab.PROCESSES) as pilot:
        await play.sees(pilot, "not visible")
        assert tables.rows(pilot.app) == [
            "5200 me 39:12 29.4 GiB gpu0 worker /opt/venv/bin/python franka.py -B 4096",
            "811 root 10d 00h 96 MiB not ours /usr/lib/xorg/Xorg :0",
            "7340112 – – not visible python",
        ]


async def test_the_cursor_stays_on_its_process_while_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pane, "POLL_INTERVAL_S", 0.2)
    engine = _with(_process(10), _process(20), _process(30))
    async with play.enlarged(Tab.PROCESSES, engine) as pilot:
        await play.sees(pilot, "job-30")
        await press(pilot, "j")
        for left, pid, gone in (((20, 30), "20", "job-10"), ((30,), "30", "job-20")):
            engine.details_of = _with(*map(_process, left)).details_of
            await play.until(pilot, lambda gone=gone: gone not in play.shown(pilot.app), f"{gone} goes")  # type: ignore[misc]
            assert tables.selected(pilot.app).startswith(pid)
        engine.details_of = _with().details_of
        await play.sees(pilot, "No process is using memory on this GPU.")
        engine.details_of = _with(_process(40)).details_of
        await play.sees(pilot, "job-40")


async def test_a_missing_list_of_processes_is_explained() -> None:
    engine = play.edited_engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(sessions.details(), processes=None)
    async with play.enlarged(Tab.PROCESSES, engine) as pilot:
        await play.sees(pilot, "The driver does not report this GPU's processes.")
    async with play.enlarged(Tab.PROCESSES, play.engine_of(sessions.cpu_snapshot(), cpus=2)) as pilot:
        await play.sees(pilot, "cpu0 is a share of the CPU and has no GPU.")


async def test_the_events_tab_lists_all_events_and_its_title_counts_them() -> None:
    engine = play.edited_engine()
    engine.events_so_far = (
        Occurrence(1, sessions.NOW, OccurrenceKind.STARTED, "gpu0 has started attempt 1", "gpu0", quiet=True),
        Occurrence(2, sessions.NOW + 1, OccurrenceKind.FAILED, "gpu0 has failed: out of memory [/", "gpu0"),
    )
    async with play.enlarged(Tab.EVENTS, engine) as pilot:
        engine.push(changed(engine.snapshot, events=2))
        await play.sees(pilot, "Events 2", "out of memory [/", "started")
        assert tables.rows(pilot.app)[0].endswith("gpu0 failed has failed: out of memory [/"), "the newest is first"


# Attempts

ATTEMPTS: tuple[tuple[int, tuple[str, ...], dict[str, str], float | None, WorkerState, str | None], ...] = (
    (1, ("-B", "1024"), {}, 13e6, WorkerState.STOPPED, None),
    (2, ("-B", "2048"), {"A": "{i}"}, 17e6, WorkerState.STOPPED, None),
    (3, ("-B", "65536"), {}, None, WorkerState.FAILED, "out of memory [/"),
    (4, ("-B", "4096"), {}, 24e6, WorkerState.RUNNING, None),
)


def _four_attempts() -> FakeEngine:
    engine = play.edited_engine(attempt=4)
    engine.details_of["gpu0"] = msgspec.structs.replace(
        sessions.details("gpu0"),
        attempts=tuple(
            reached(
                number,
                args,
                None if fps is None else rate(fps),
                state=state,
                reason=reason,
                env=env,
                started=sessions.NOW - 900,
                ended=sessions.NOW - 800,
                exit_code=0,
            )
            for number, args, env, fps, state, reason in ATTEMPTS
        ),
        args=("-B", "4096"),
        extra_env={},
    )
    return engine


async def test_attempts_show_their_results_and_enter_edits_with_the_settings_of_an_earlier_one() -> None:
    async with play.enlarged(Tab.ATTEMPTS, _four_attempts(), size=(160, 36)) as pilot:
        await play.sees(pilot, "17,000,000", "1:40")
        await press(pilot, "down")
        await play.sees(pilot, "out of memory [/")
        await press(pilot, "down")
        await press(pilot, "enter")
        await play.sees(pilot, "Edit gpu0", "gpu0 will restart with these settings")
        args, env = pilot.app.screen.query(TextArea)
        assert (args.text, env.text) == ("-B 2048", "A={i}")
        await press(pilot, "enter")
        assert asked(pilot.app.engine) == [("edit", ("gpu0",), ("-B", "2048"), {"A": "{i}"})]  # type: ignore[attr-defined]
        await play.sees(pilot, "17,000,000")


async def test_the_log_of_an_attempt_is_shown_where_it_begins() -> None:
    engine = _four_attempts()
    engine.log = {
        "gpu0": [
            f"{SEPARATOR}attempt {n} · now" if n > 1 and not i else f"line {n}-{i}"
            for n in (1, 2, 3, 4)
            for i in range(100)
        ]
    }
    async with play.enlarged(Tab.ATTEMPTS, engine, size=(100, 36)) as pilot:
        await play.sees(pilot, "17,000,000")
        await press(pilot, "down", "do:screen.attempt_log")
        await play.sees(pilot, "attempt 3 · now", "line 2-99", "line 3-1", "match 1 of 1")
        await press(pilot, "escape", "do:screen.show_tab('Attempts')", "end")
        await play.click(pilot, "13,000,000")
        await play.sees(pilot, "line 1-0", "paused")


# Keys


async def test_left_and_right_select_and_show_the_neighbour() -> None:
    async with play.enlarged(Tab.SETUP) as pilot:
        await press(pilot, "l", "right", "h")
        await play.sees(pilot, "gpu1", "-e run-1")
        assert pilot.app.view.selected == "gpu1"  # type: ignore[attr-defined]
        await press(pilot, "h", "h", "left")
        await play.sees(pilot, "gpu0", "-e run-0")
        await press(pilot, *"llllll", "escape")
        await play.sees(pilot, "▸ gpu3")


async def test_keys_act_on_the_shown_worker_and_not_on_marked_ones() -> None:
    engine = play.edited_engine()
    async with play.enlarged(Tab.CHARTS, engine, "escape", "space", "enter", "l", "r", "x", "X", "y") as pilot:
        assert asked(engine) == [("restart", "gpu1"), ("stop", "gpu1"), ("kill", "gpu1")]
        await play.sees(pilot, "2 of 4")


# Updates


async def test_each_snapshot_is_shown_with_its_problems_at_the_top() -> None:
    engine = play.edited_engine()
    async with play.enlarged(Tab.CHARTS, engine) as pilot:
        await play.sees(pilot, "FPS  24,013,029", "attempt 2")
        engine.push(
            sessions.edited_snapshot(
                fps=Fps(31.5, 31.0, 32.0, 4, settled=31.5), alerts=alerts(stuck="no output for 74 s"), attempt=3, pid=77
            )
        )
        await play.sees(pilot, "FPS  31.5", "attempt 3  PID 77", "STUCK running", "▸ no output for 74 s")
        engine.push(
            sessions.edited_snapshot(
                state=WorkerState.FAILED, reason="nan in entity 3 [/", advice="a smaller dt", pid=None
            )
        )
        await play.sees(pilot, "failed", "▸ nan in entity 3 [/", "▸ a smaller dt")
        assert "STUCK" not in play.shown(pilot.app)
        engine.push(sessions.edited_snapshot(state=WorkerState.WAITING, attempt=0, pid=None))
        await play.sees(pilot, "waiting")
        assert "attempt" not in play.screen(pilot.app)[0], "the first one has not started"


async def test_a_slot_without_a_worker_is_shown() -> None:
    engine = play.edited_engine()
    slots = (*sessions.session(4).slots, Slot("gpu9", sessions.gpu(9)))
    engine.welcome = msgspec.structs.replace(
        engine.welcome, session=msgspec.structs.replace(sessions.session(4), slots=slots)
    )
    async with play.enlarged(Tab.METRICS, engine, slot="gpu9") as pilot:
        await play.sees(pilot, "gpu9", "waiting", "5 of 5")
        await press(pilot, "tab", "h")
        await play.sees(pilot, "4 of 5")


@pytest.mark.parametrize(
    ("tab", "waits_for", "copied"),
    [
        (Tab.ATTEMPTS, "▸  2", "2  running"),
        (Tab.SETUP, "Command line", "Command line\ncommand  "),
        (Tab.METRICS, "SM clock", ""),
    ],
)
async def test_y_copies_what_the_tab_shows_and_not_the_hidden_log(tab: Tab, waits_for: str, copied: str) -> None:
    async with play.enlarged(tab) as pilot:
        await play.sees(pilot, waits_for)
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith(copied)
        assert bool(pilot.app.clipboard) is bool(copied)
