"""The table of all pages and tabs: only what is visible is formatted, sorted by its headings, and its cursor stays."""

from typing import NamedTuple

from textual.app import App, ComposeResult

from gmg_tui.results.column import Column
from gmg_tui.ui import themes
from gmg_tui.ui.table import Table
from tests.ui import play

COUNT = 20_000


class Job(NamedTuple):
    number: int
    rate: float | None = None
    why: str | None = None


class Shown(App[None]):
    """A table of jobs that counts the cells that it formats."""

    def __init__(self) -> None:
        super().__init__()
        for each in themes.all_themes():
            self.register_theme(each)
        self.theme = themes.textual_name(None, no_color=False)
        self.written = 0
        columns = (
            Column[Job]("number", lambda job: job.number, "#", write=self._write),
            Column[Job]("rate", lambda job: job.rate, write=self._write),
            Column[Job]("why", lambda job: job.why, align_left=True),
        )
        self.table = Table(columns, key=lambda job: str(job.number))

    def _write(self, value: object) -> str:
        self.written += 1
        return f"{value:,}"

    def compose(self) -> ComposeResult:
        yield self.table


async def test_only_visible_rows_are_formatted_of_a_long_table() -> None:
    app = Shown()
    async with app.run_test(size=(40, 12)) as pilot:
        jobs = [Job(number, float(number)) for number in range(COUNT)]
        app.table.show(jobs)
        await play.sees(pilot, "10.0", "#")
        assert app.written < 500
        app.written = 0
        app.table.replace([Job(3, 33.5), Job(COUNT - 1, 7.0)])
        await play.sees(pilot, "33.5")
        assert 0 < app.written <= 2, "a row that is as before was formatted"
        app.table.action_go("end")
        await play.sees(pilot, "19,999", "7.0")


async def test_the_last_column_fills_the_width_and_an_arrow_shows_that_it_is_cut() -> None:
    app = Shown()
    reason = f"{'w' * 60} end"
    async with app.run_test(size=(90, 12)) as pilot:
        app.table.show([Job(1, 2.0, reason)])
        await play.sees(pilot, reason)
        assert "→" not in play.shown(app)
        for width in range(10, 20):  # in some, a heading ends at the edge
            await pilot.resize_terminal(width, 12)
            await play.sees(pilot, "→")


async def test_a_click_on_a_heading_sorts_and_the_cursor_stays_on_its_row() -> None:
    app = Shown()
    async with app.run_test(size=(40, 12)) as pilot:
        app.table.show([Job(1, 5.0), Job(2), Job(3, 9.0)])
        await pilot.pause()
        app.table.move_to(2)
        for rates in (["9.0", "5.0", "–"], ["5.0", "9.0", "–"]):
            await play.click(pilot, "rate")
            assert [row.split()[-1] for row in play.screen(app)[1:4]] == rates
            assert app.table.selected == Job(3, 9.0)
        app.table.replace([Job(2, 1.0)])
        await pilot.pause()
        assert [row.split()[-1] for row in play.screen(app)[1:4]] == ["1.0", "5.0", "9.0"]


async def test_a_number_that_does_not_fit_is_not_cut() -> None:
    app = Shown()
    async with app.run_test(size=(17, 12)) as pilot:
        app.table.show([Job(1_234_567, 7_654_321.0)])
        await play.sees(pilot, "1,234,567")
        assert "7" not in play.screen(app)[1].replace("1,234,567", "")
        await pilot.resize_terminal(40, 12)
        await play.sees(pilot, "7,654,321.0")


async def test_a_text_cut_at_the_edge_and_hidden_columns_have_a_sign() -> None:
    app = Shown()
    async with app.run_test(size=(24, 12)) as pilot:
        app.table.show([Job(7, 1.0, "a reason that is too long")])
        await play.sees(pilot, "a reason t…", "→")
        await pilot.resize_terminal(60, 12)
        await play.sees(pilot, "a reason that is too long")
        assert "→" not in play.shown(app)


async def test_the_wheel_leaves_the_cursor_until_it_moves() -> None:
    app = Shown()
    async with app.run_test(size=(40, 12)) as pilot:
        app.table.show([Job(number, float(number)) for number in range(COUNT)])
        await pilot.pause()
        app.table.scroll_wheel(30)
        await pilot.pause()
        top = app.table.scroll_y
        assert top > 0
        app.table.replace([Job(3, 33.5)])
        await pilot.pause()
        assert app.table.scroll_y == top
        app.table.action_go("line-down")
        assert (app.table.cursor_row, app.table.scroll_y) == (1, 1)


async def test_a_cursor_set_before_the_first_layout_hides_no_rows_above() -> None:
    app = Shown()
    app.table.show([Job(number) for number in range(5)])
    app.table.move_to(4)
    async with app.run_test(size=(40, 12)) as pilot:
        await play.sees(pilot, "▸  4")
        assert app.table.scroll_y == 0
