"""The count of warnings and errors on a worker's tile."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gmg_tui.ui.drawing import tile, words
from gmg_tui.ui.drawing.appearance import ASCII, Appearance
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
@pytest.mark.parametrize("look", [_LOOK, Appearance(_LOOK.styles, ASCII)], ids=["unicode", "ascii"])
def test_what_was_printed_stands_in_the_frame(
    warnings: int, errors: int, text: str, style: str, look: Appearance
) -> None:
    worker = changed(sessions.running(0), warning_lines=warnings, error_lines=errors)
    slot = sessions.session(1).slots[0]
    shown = Shown(slot, worker, sessions.sample(0), History(), chosen=False, time=sessions.NOW)
    last = tile.tile(shown, tile.MIN_WIDTH, look)[-1]
    foot = "".join(segment.text for segment in last)
    assert words.remarks(worker) == (text, style)
    assert cell_len(foot) == tile.MIN_WIDTH
    assert foot.strip("╰╯─+- ") == text
