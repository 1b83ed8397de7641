"""The log file as rows: pages, the search, and how the view moves through it."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gmg_tui.model.text import clean
from gmg_tui.scripts.genesis.output.line_patterns import is_progress_only
from gmg_tui.ui.log import file as log_files
from gmg_tui.ui.log import source as log_sources
from gmg_tui.ui.log.file import LogFile
from gmg_tui.ui.log.rows import LogRow, Query, fold, join
from gmg_tui.ui.log.source import LogSource, Search
from tests.ui import play
from tests.ui.play import FakedApp, press
from tests.ui.sessions import fps_line
from tests.ui.test_log import SMALL, _log

TALL = (80, 60)
WARNING = "[Genesis] [07:00:34] [WARNING] needle"


def _file(folder: Path, data: bytes) -> LogFile:
    path = folder / "gpu0.log"
    path.write_bytes(data)
    return LogFile(path)


def _texts(rows: list[LogRow]) -> list[str]:
    return [row.text for row in rows]


async def _found(file: LogFile, text: str) -> list[int]:
    search = Search(Query(text), file)
    while search.running:
        await search.step()
    return search.matches


_pieces = st.sampled_from(
    [b"a\n", b"\n", b"needle", b"x" * 30, b"\xff\xfe\n", b"Running at 10.00 FPS.\n", b"\r", b"\r\n"]
)


async def test_a_long_word_is_found_and_its_pattern_stays_small(tmp_path: Path) -> None:
    word = "abcdefghij" * 100
    file = _file(tmp_path, f"{word}\n{word[:-1]}\nabc\x1b[1m{word[3:]}\n".encode())
    assert len(await _found(file, word)) == 2
    assert len(Query("x" * 100_000).raw.pattern) < 500


@settings(deadline=None)
@given(st.lists(_pieces, max_size=60), st.integers(1, 5), st.integers(2, 40))
def test_pages_up_and_down_have_each_line_once(
    tmp_path_factory: Any, pieces: list[bytes], count: int, block: int
) -> None:
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "_BLOCK_BYTES", block)
        file = _file(tmp_path_factory.mktemp("log"), data)
        *finished, rest = data.split(b"\n")
        lines = [clean(_displayed(line)) for line in [*finished, *([rest] if rest else [])]]
        down, at = list[LogRow](), 0
        while (page := file.read_after(at, count)) and page[-1].end > at:
            down, at = join(down, page), page[-1].end
        assert _summary(down) == _summary(_folded(lines))
        assert at == len(data)
        up, at = list[LogRow](), len(data)
        while at:
            page = file.read_before(at, count)
            up, at = join(page, up), page[0].start
        assert up == down


def _displayed(line: bytes) -> bytes:
    return next(filter(None, reversed(line.split(b"\r"))), b"")


def _folded(lines: list[str]) -> list[LogRow]:
    rows = list[LogRow]()
    for line in lines:
        fold(rows, LogRow(line, 0, 0, progress=is_progress_only(line)))
    return rows


def _summary(rows: list[LogRow]) -> list[tuple[str, int]]:
    return [(row.text, row.lines) for row in rows]


def test_long_lines_and_overwritten_ones_are_shown_as_on_a_terminal(tmp_path: Path) -> None:
    long = b"x" * 1_000_000
    file = _file(tmp_path, b"first\n" + long + b"\n 1%|#| 1/9\r 99%|#| 9/9\rdone\n" + b"bar\r" * 50_000 + b"\nlast")
    rows = file.read_before(file.size, 10)
    while rows[0].start:
        rows = join(file.read_before(rows[0].start, 10), rows)
    assert [row.text[:10] for row in rows] == ["first", "x" * 10, "done", "bar", "last"]
    rows = file.read_after(0, 10)
    while (more := file.read_after(rows[-1].end, 10)) and more[-1] != rows[-1]:
        rows = join(rows, more)
    assert [row.text[:10] for row in rows] == ["first", "x" * 10, "done", "bar", "last"]


async def test_a_search_finds_visible_text_across_blocks_colours_and_bad_bytes_and_far_into_long_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sources, "_SEARCH_STEP_BYTES", 10_000)
    lines = [f"step {number}".encode() for number in range(20_000)]
    lines[3] = b"bad \xff NEEDLE"
    lines[900] = b"\x1b[1mnee\x1b[0mdle"
    lines[7000] = b"y" * 400_000 + b" needle " + b"y" * 400_000
    lines[9000] = b"needle\roverwritten"
    lines[9500:9600] = [fps_line(number, 24e6).encode() for number in range(100)]
    lines[-1] = b"needle"
    file = _file(tmp_path, b"\n".join(lines))
    starts = [len(b"\n".join(lines[:number])) + 1 for number in (3, 900, 7000, len(lines) - 1)]
    assert await _found(file, "needle") == [file.read_after(start, 1)[0].position for start in starts[::-1]]
    assert len(await _found(file, "Running at")) == 1
    row = next(row for row in file.read_around(starts[2], 5, Query("needle")) if row.start == starts[2])
    assert "needle" in row.shown


def test_a_file_that_was_truncated_or_replaced_ends_earlier(tmp_path: Path) -> None:
    file = _file(tmp_path, b"line\n" * 1000)
    os.truncate(tmp_path / "gpu0.log", 10)
    assert _texts(file.read_before(5000, 10)) == ["line", "line"]
    assert file.read_after(4000, 10) == []
    (tmp_path / "new").write_bytes(b"other\n")
    (tmp_path / "new").replace(tmp_path / "gpu0.log")
    assert _texts(file.read_before(file.size, 10)) == ["line", "line"]


# In the view


def _app(folder: Path, lines: list[str]) -> FakedApp:
    """An app whose first worker has this log file."""
    app = play.busy(1)
    (folder / "logs").mkdir()
    (folder / "logs/gpu0.log").write_text("".join(f"{line}\n" for line in lines))
    session = app.view.session
    app.view.session = structs.replace(session, spec=structs.replace(session.spec, folder=str(folder)))
    app.engine.log = {}
    return app


def _write(app: FakedApp, folder: Path, *lines: str) -> None:
    """Add lines to the log, and say so in a snapshot."""
    with (folder / "logs/gpu0.log").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    app.engine.push(app.engine.snapshot)


def _fps(count: int) -> list[str]:
    return [fps_line(number, 24e6 + number) for number in range(count)]


async def test_a_warning_before_thousands_of_progress_lines_is_shown_and_found(tmp_path: Path) -> None:
    app = _app(tmp_path, ["first", WARNING, *_fps(5000)])
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "07:00:34 WARNING needle", "×5,000", "first")
        await press(pilot, "slash", *"WARNING", "enter")
        await play.sees(pilot, "match 1 of 1", "WARNING needle")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sources, "_PAGE_ROWS", 100)
    monkeypatch.setattr(log_sources, "MAX_ROWS", 300)


async def test_home_and_paging_reach_every_line_of_the_file_and_the_end_follows_again(
    tmp_path: Path, small_pages: None
) -> None:
    app = _app(tmp_path, [f"line {number}" for number in range(1500)])
    async with app.run_test(size=TALL) as pilot:
        await play.sees(pilot, "line 1499")
        await press(pilot, "home")
        await play.sees(pilot, "line 0 ", "paused at ")
        seen = set[int]()
        while not app.main.log_view.source.following:
            seen |= _numbers(app)
            await press(pilot, "pagedown")
            await play.until(pilot, lambda: app.main.log_view._current_read is None)
        assert seen | _numbers(app) == set(range(1500))
        _write(app, tmp_path, "newest")
        await play.sees(pilot, "newest")


def _numbers(app: FakedApp) -> set[int]:
    return {int(row.split()[1]) for row in _log(app)[1:] if row.startswith("line ")}


async def test_paging_up_passes_through_the_whole_file_without_a_gap(tmp_path: Path, small_pages: None) -> None:
    app = _app(tmp_path, [f"line {number}" for number in range(1200)])
    async with app.run_test(size=TALL) as pilot:
        await play.sees(pilot, "line 1199")
        seen = set[int]()
        for _ in range(400):
            seen |= _numbers(app)
            if 0 in seen:
                break
            await press(pilot, "pageup")
            await play.until(pilot, lambda: app.main.log_view._current_read is None)
        assert seen == set(range(1200))


async def test_matches_of_the_whole_file_are_visited_in_both_directions(tmp_path: Path) -> None:
    lines = [f"needle {number}" if number % 4000 == 7 else f"line {number}" for number in range(20_000)]
    app = _app(tmp_path, lines)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "line 19999")
        await press(pilot, "slash", *"needle", "enter")
        await play.sees(pilot, "match 5 of 5", "needle 16007")
        for key, shown in (("N", "4 of 5"), ("N", "3 of 5"), ("n", "4 of 5"), ("n", "5 of 5"), ("n", "1 of 5")):
            await press(pilot, key)
            await play.sees(pilot, f"match {shown}")
        await play.sees(pilot, "needle 7")
        _write(app, tmp_path, "a later needle")
        await press(pilot, "N", "n")
        await play.sees(pilot, "match 6 of 6", "a later needle")
        await press(pilot, "escape")
        await play.sees(pilot, "line 19999")


async def test_a_log_that_cannot_be_read_says_so_until_it_can(tmp_path: Path) -> None:
    app = _app(tmp_path, [])
    path = tmp_path / "logs/gpu0.log"
    path.unlink()
    os.mkfifo(path)
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "The log file cannot be read: not a regular file.")
        path.unlink()
        _write(app, tmp_path, "first")
        await play.sees(pilot, "first")


async def test_a_log_that_is_replaced_or_flooded_is_followed_to_its_newest_line(tmp_path: Path) -> None:
    app = _app(tmp_path, [f"line {number}" for number in range(100)])
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "line 99")
        _write(app, tmp_path, *(f"flood {number}" for number in range(100_000)))
        await play.sees(pilot, "flood 99999")
        assert len(app.main.log_view.source.rows) <= 1000
        (tmp_path / "new").write_text("cut out\nend\n")
        (tmp_path / "new").replace(tmp_path / "logs/gpu0.log")
        app.engine.push(app.engine.snapshot)
        await play.sees(pilot, "cut out", "end")


async def test_an_unfinished_line_grows_and_progress_is_counted_on(tmp_path: Path) -> None:
    app = _app(tmp_path, ["first", *_fps(3)])
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "×3")
        with (tmp_path / "logs/gpu0.log").open("a") as file:
            file.write(f"{fps_line(3, 24e6)}\nunfin")
        app.engine.push(app.engine.snapshot)
        await play.sees(pilot, "×4", "unfin")
        _write(app, tmp_path, "ished")
        await play.sees(pilot, "unfinished")
        assert [row.lines for row in app.main.log_view.source.rows] == [1, 4, 1]


async def test_a_search_continues_in_the_log_of_another_worker(tmp_path: Path) -> None:
    app = _app(tmp_path, ["needle", *(f"line {number}" for number in range(3000))])
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "line 2999")
        await press(pilot, "slash", *"needle", "enter")
        await play.sees(pilot, "match 1 of 1")
        app.main.log_view.open(LogSource("gpu0", path=lambda: tmp_path / "logs/gpu0.log"))
        _write(app, tmp_path, "later")
        await play.sees(pilot, "following", "/needle", "later")
        await press(pilot, "n")
        await play.sees(pilot, "match 1 of 1", "paused")


async def test_n_finds_lines_printed_after_a_search(tmp_path: Path) -> None:
    app = _app(tmp_path, [f"line {number}" for number in range(500)])
    async with app.run_test(size=SMALL) as pilot:
        await play.sees(pilot, "line 499")
        await press(pilot, "slash", *"needle", "enter")
        await play.sees(pilot, "no match")
        _write(app, tmp_path, "needle")
        await press(pilot, "n")
        await play.sees(pilot, "match 1 of 1")


async def test_n_searches_anew_in_the_file_of_the_slots_next_job(tmp_path: Path) -> None:
    app = _app(tmp_path, ["line"])
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "slash", *"needle", "enter")
        await play.sees(pilot, "no match")
        (later := tmp_path / "later.log").write_text("needle\n")
        later.replace(tmp_path / "logs/gpu0.log")
        _write(app, tmp_path, "after")
        await play.sees(pilot, "after", "/needle")
        await press(pilot, "n")
        await play.sees(pilot, "match 1 of 1")
