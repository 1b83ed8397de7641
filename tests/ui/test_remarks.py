"""The count of warnings and errors on a worker's tile."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gmg_tui.ui.drawing import tile, words
from gmg_tui.ui.drawing.words import Shown
from gmg_tui.ui.history import History
from tests.ui import play, sessions
from tests.ui.sessions import changed

_LOOK = play.busy(1).appearance


@pytest.mark.parametrize(
    ("warnings", "errors", "text", "style"),
    [
        (0, 0, "", "warn"),
        (5, 0, "5 warnings", "warn"),
        (0, 1, "1 error", "error"),
        (1, 2, "2 errors, 1 warning", "error"),
        (9999, 9999, "9,999 errors, 9,999 warnings", "error"),
    ],
)
def test_what_was_printed_stands_in_the_frame(warnings: int, errors: int, text: str, style: str) -> None:
    worker = changed(sessions.running(0), warning_lines=warnings, error_lines=errors)
    slot = sessions.session(1).slots[0]
    shown = Shown(slot, worker, sessions.sample(0), History(), chosen=False, time=sessions.NOW)
    last = tile.tile(shown, tile.MIN_WIDTH, _LOOK)[-1]
    foot = "".join(segment.text for segment in last)
    assert words.remarks(worker) == (text, style)
    assert cell_len(foot) == tile.MIN_WIDTH
    assert foot.strip("╰╯─ ") == text


def test_warnings_that_all_workers_print_are_no_mark() -> None:
    workers = [changed(sessions.running(index), warning_lines=1) for index in range(3)]
    shared = words.shared_warnings(workers)
    assert words.remarks(workers[0], shared) == ("", "warn")
    other = changed(workers[0], warning_lines=2)
    assert words.remarks(other, words.shared_warnings([*workers, other])).style == "warn"
    assert words.shared_warnings(workers[:1]) == 0, "one alone shares nothing"
