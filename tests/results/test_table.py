"""The row model, its renderers, and the format of words and numbers."""

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui.model import (
    Fps,
    Gpu,
    GpuSample,
    JobRecord,
    Slot,
    Snapshot,
    Worker,
    WorkerState,
    fps_per_watt,
    total_fps,
    units,
)
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.text import MAX_LINE_BYTES, clean, escape_json, safe
from gmg_tui.results import column as columns
from gmg_tui.results import table as tables
from gmg_tui.results.column import Column
from gmg_tui.results.job_columns import result_names
from tests.workers import alerts, changed, session_of, worker_of


class Row(NamedTuple):
    name: str
    mib: float | None = None
    fps: float | None = None
    note: str | None = None


COLUMNS = (
    Column[Row]("name", lambda row: row.name, priority=100, align_left=True),
    Column[Row]("memory_mib", lambda row: row.mib, "VRAM", "GiB", units.gib, priority=10),
    Column[Row]("fps", lambda row: row.fps, "FPS", write=units.fps, priority=90),
    Column[Row]("note", lambda row: row.note, align_left=True, priority=5, max_width=12),
)
ROWS = [Row("日本", 2048, 1234.5678), Row("abcdef", None, 20.0)]


def test_a_terminal_aligns_columns_and_leaves_out_those_without_a_value() -> None:
    assert tables.render_lines(COLUMNS, ROWS) == [
        "name    VRAM GiB    FPS",
        "日本         2.0  1,235",
        "abcdef         –  20.00",
    ]
    assert tables.render_lines(COLUMNS, []) == []


def test_a_narrow_terminal_drops_the_least_important_columns_and_names_them() -> None:
    assert tables.render_lines(COLUMNS, ROWS, width=14) == [
        "name      FPS",
        "日本    1,235",
        "abcdef  20.00",
        "no room for: VRAM GiB",
    ]
    assert tables.render_lines(COLUMNS, ROWS, width=1)[-1] == "no room for: VRAM GiB, FPS"


def test_a_style_does_not_count_as_width() -> None:
    columns = [*COLUMNS, Column[Row]("state", lambda row: "failed")]
    styled = tables.render_lines(columns, ROWS, colour=True, styles={"failed": "red"})
    assert "\x1b[31mfailed\x1b[0m" in styled[1]
    assert len(styled) == 3


def test_csv_has_all_columns_and_values_in_full() -> None:
    rows = [*ROWS, Row("-B 4096", note="a,b\n")]
    assert b"".join(columns.as_csv(COLUMNS, rows, raw=True)).decode() == (
        'name,memory_mib,fps,note\n日本,2048,1234.5678,\nabcdef,,20.0,\n-B 4096,,,"a,b\n"\n'
    )


@pytest.mark.parametrize(
    ("text", "in_csv"),
    [
        ("=1+1", "'=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        (" @x", "' @x"),
        ("-B 4096", "'-B 4096"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-4.5", "-4.5"),
        ("a=b", "a=b"),
        ("\x1b]0;x\x07=1", "'=1"),
    ],
)
def test_csv_has_no_formulas_unless_it_is_raw(text: str, in_csv: str) -> None:
    column = [Column[str](text, lambda row: row)]
    assert b"".join(columns.as_csv(column, [text])).decode() == f"{in_csv}\n{in_csv}\n"
    assert b"".join(columns.as_csv(column, [text], raw=True)).decode() == f"{text}\n{text}\n"


def test_one_job_with_many_results_hides_none_of_the_others() -> None:
    many = JobRecord(1, "a", result={f"z{number}": 1.0 for number in range(MAX_NAMES)})
    others = [JobRecord(number, "b", result={"loss": 0.1, f"of job {number}": 1.0}) for number in (2, 3)]
    names = result_names([many, *others])
    assert {"loss", "of job 2", "of job 3"} < set(names)
    assert names[:2] == ["z0", "z1"]
    assert len(names) == MAX_NAMES
    assert result_names(others) == ["loss", "of job 2", "of job 3"]


def test_a_heading_is_harmless() -> None:
    assert (
        tables.render_lines([Column[Row]("a\x1b]0;x\x07\u3164\nb", lambda row: "1")], ROWS, colour=False)[0] == "a··b"
    )
    assert Column[Row]("x" * 50_000, lambda row: "1", unit="s").heading == f"{'x' * 200}… s"


def test_html_escapes_texts_and_has_numbers_in_full() -> None:
    page = tables.render_html(COLUMNS, [Row("<b>\0", 1536.5)], row_class=lambda row: "failed")
    assert "&lt;b&gt;·" in page
    assert '<td data-value="1536.5">1.5</td>' in page
    assert "FPS" not in page


@given(st.lists(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)))
def test_values_that_are_not_numbers_rank_last_in_either_order(values: list[columns.Cell]) -> None:
    column = Column[tuple[columns.Cell, int]]("x", lambda row: row[0])
    rows = [(value, number) for number, value in enumerate(values)]
    for descending in (False, True):
        order = columns.sort_rows(column, rows, descending=descending)
        assert sorted(order, key=lambda row: row[1]) == sorted(rows, key=lambda row: row[1])
        sizes = [value for value, _ in order if columns.is_known(value) and not isinstance(value, str)]
        assert sizes == sorted(sizes, reverse=descending)  # type: ignore[type-var]
        numbers = [isinstance(value, str) for value, _ in order if columns.is_known(value)]
        assert numbers == sorted(numbers)
        known = [columns.is_known(value) for value, _ in order]
        assert known == sorted(known, reverse=True)


@given(st.text(max_size=60))
def test_a_long_text_is_cut_in_a_terminal_and_whole_in_a_pipe(text: str) -> None:
    rows = [Row("日本", note=text)]
    whole = COLUMNS[3].text(rows[0])
    assert all(cell_len(line) <= 20 for line in tables.render_lines(COLUMNS, rows, width=200))
    assert tables.render_lines(COLUMNS, rows)[1] == f"日本  {whole}".rstrip()


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "[red]x", ":smile:", "\u202e"])
def test_a_cell_is_shown_literally_and_is_harmless(text: str) -> None:
    heading, line = tables.render_lines(COLUMNS, [Row(text)])
    assert heading == "name"
    assert line == COLUMNS[0].text(Row(text))
    assert "\x1b" not in line


# Figures as people read them, totals, and text that is safe on any terminal


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (units.fps, {None: "–", 0.0: "0.00", 4.994: "4.99", 99.994: "99.99", 100.0: "100", 24_013_029.12: "24,013,029"}),
        (units.fps, {1e300: "1e+300", 0.0004: "0.0004", math.nan: "nan", -math.inf: "-inf"}),
        (units.number, {1.00041: "1.00041", 0.1: "0.1", 1e-4: "0.0001", 1e-5: "1e-05", 12_345.678: "12,345.7"}),
        (units.number, {999_999.6: "1,000,000", 123_456_789.1: "123,456,789", 1_638_400_000.4: "1,638,400,000", 2**40: f"{2**40:,}"}),
        (units.time_left, {None: "", 0.4: "", math.inf: "", math.nan: "", 1.0: "1 s left", 185.0: "3:05 left"}),
        (units.number, {0.0: "0", -2e9: "-2,000,000,000", -2e12: "-2e+12", math.nan: "nan", math.inf: "inf"}),
        (units.short, {1e300: "1e+300", math.nan: "nan"}),
        (units.span, {math.nan: "–", math.inf: "–"}),
        (units.short, {0.5: "0.50", 9.994: "9.99", 9.996: "10.0", 99.96: "100", 999.4: "999", 999.6: "1.00k"}),
        (units.short, {42_812.0: "42.8k", 999_600.0: "1.00M", 192_000_000.0: "192M", 1.5e12: "1.50T"}),
        (units.span, {None: "–", 0.4: "0 s", 59.9: "59 s", 185: "3:05", 3720: "1h 02m", 183_845: "2d 03h"}),
        (units.clock, {None: "–", 0.4: "00:00:00", 59.9: "00:00:59", 3720: "01:02:00", 183_845: "2d 03:04:05"}),
        (units.size, {None: "–", 0: "0", 1: "1 KiB", 1 << 20: "1 MiB", (1 << 20) - 1: "1 MiB"}),
        (units.size, {(1 << 30) - 1: "1.0 GiB", 1.25 * (1 << 30): "1.2 GiB", 1023.99 * (1 << 30): "1.0 TiB"}),
        (units.energy, {None: "n/a", 0: "0 J", 302.4: "302 J", 22_400: "6.2 Wh", 263_000: "73 Wh", 5_040_000: "1.4 kWh"}),
    ],
)  # fmt: skip
def test_numbers_are_formatted_for_people(write: Callable[[Any], str], texts: dict[float | None, str]) -> None:
    assert {value: write(value) for value in texts} == texts


def _worker(slot: str, state: WorkerState, fps: float | None) -> Worker:
    return worker_of(slot, 0, state, fps=Fps(fps, fps, fps, 1, settled=fps) if fps else None)


def test_the_total_covers_running_workers_until_all_have_ended() -> None:
    running = _worker("gpu0", WorkerState.RUNNING, 100.0)
    failed = _worker("gpu1", WorkerState.FAILED, 50.0)
    finished = _worker("gpu2", WorkerState.FINISHED, 25.0)
    silent = _worker("gpu3", WorkerState.COMPILING, None)
    assert total_fps((running, failed, finished, silent)) == 100.0
    assert total_fps((failed, finished)) == 25.0
    assert total_fps((silent,)) is None


def test_the_current_rate_is_shown_first_and_a_stale_one_is_excluded() -> None:
    worker = worker_of("gpu0", 0, WorkerState.RUNNING, fps=Fps(100.0, 90.0, 110.0, 9, settled=80.0))
    silent = changed(worker, slot="gpu1", alerts=alerts(48.0, silent="no FPS line"))
    assert (worker.current_fps, silent.current_fps) == (80.0, None)
    assert total_fps((worker, silent)) == 80.0
    assert total_fps((silent,)) is None
    ended = [changed(each, state=WorkerState.STOPPED) for each in (worker, silent)]
    assert total_fps(tuple(ended)) == 180.0
    gpus = {slot: Gpu(index, f"GPU-{index}", "H100") for index, slot in enumerate(("gpu0", "gpu1"))}
    slots = tuple(Slot(name, gpu) for name, gpu in gpus.items())
    samples = tuple(GpuSample(gpu.uuid, power_w=10.0) for gpu in gpus.values())
    assert fps_per_watt(session_of(*slots), Snapshot(0.0, 0.0, (worker, silent), samples)) == 8.0


def _efficiency(slots: dict[str, str], powers_w: dict[str, float | None]) -> float | None:
    """FPS per watt of a worker with 300 FPS and one with 999, on slots of these GPUs."""
    names = list(slots)
    workers = (_worker(names[0], WorkerState.RUNNING, 300.0), _worker(names[1], WorkerState.RUNNING, 999.0))
    gpus = {uuid: Gpu(index, uuid, "H100") for index, uuid in enumerate(dict.fromkeys(slots.values()))}
    session = session_of(*(Slot(name, gpus[uuid]) for name, uuid in slots.items()))
    samples = tuple(GpuSample(uuid, power_w=power_w) for uuid, power_w in powers_w.items())
    return fps_per_watt(session, Snapshot(0.0, 0.0, workers, samples))


def test_fps_per_watt_counts_each_gpu_that_reports_its_power_once() -> None:
    two = {"gpu0": "A", "gpu1": "B"}
    assert _efficiency(two, {"A": 100.0, "B": None}) == 3.0
    assert _efficiency(two, {}) is None
    assert _efficiency(two, {"A": 0.0}) is None
    assert _efficiency(two, {"A": 100.0, "B": 300.0}) == 1299.0 / 400.0
    assert _efficiency({"gpu0-1": "A", "gpu0-2": "A"}, {"A": 100.0}) == 12.99


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[38;5;159m[Genesis]\x1b[0m [/] [red]x", "[Genesis] [/] [red]x"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]52;c;aGk=\x1b\\after", "after"),
        (b'\x1bP$q"p\x1b\\after\x1bc', "after"),
        (b"a\tb", "a       b"),
        (b"bell\x07 nul\x00 del\x7f", "bell· nul· del·"),
        ("\u202eevil\u200b \x9b31m".encode(), "·evil· ·31m"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("🚀 gut".encode(), "🚀 gut"),
        ("so\u00adft\u034f \u180eti\ufe0f \u115f\u3164".encode(), "soft ti ··"),
        (b"x" * (MAX_LINE_BYTES + 1234), "x" * MAX_LINE_BYTES + " … (+1,234 bytes)"),
    ],
)
def test_control_characters_are_removed(raw: bytes, text: str) -> None:
    assert clean(raw) == text


def test_printed_text_keeps_only_lines_and_plain_styles() -> None:
    hostile = "\x1b[31mred\x1b[0m\n\x1b[8mhid\x1b[30;40m\x1b]52;c;aGk=\x07\x9b2J\ttab"
    assert safe(hostile) == "red\nhid·2J\ttab"
    assert safe(hostile, styles=True) == "\x1b[31mred\x1b[0m\nhid·2J\ttab"
    value = ["\x7f\x9b\u00ad\U000e0001", "plain"]
    assert json.loads(escape_json(json.dumps(value, ensure_ascii=False))) == value
    assert escape_json(json.dumps(value, ensure_ascii=False)).isascii()
