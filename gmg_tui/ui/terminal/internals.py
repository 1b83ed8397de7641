"""Where Textual's private parts are used only in versions that are known to have them."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

import textual

if TYPE_CHECKING:
    from gmg_tui.ui.terminal.differ import Differ

DIFFER_VERSIONS: Final = (8, 2, 5), (8, 3)
"""The first version of Textual that the differ is tested with, and the first one after the tested ones."""


def load_differ() -> Differ | None:
    """The differ; None, with a warning in the log, where this version of Textual is unknown or lacks what it needs."""
    first, after = DIFFER_VERSIONS
    if not first <= tuple(map(int, re.findall(r"\d+", textual.__version__)[:3])) < after:
        reason = "its version is not known"
    else:
        try:
            from gmg_tui.ui.terminal.differ import Differ
        except ImportError as error:
            reason = str(error)
        else:
            return Differ()
    logging.getLogger(__name__).warning(
        "Textual %s: whole regions are sent to the terminal, not only changed cells: %s", textual.__version__, reason
    )
    return None
