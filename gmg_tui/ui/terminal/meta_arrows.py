"""Alt with an arrow as terminals send it that write an escape before the arrow's own sequence.

macOS's Terminal ("Use Option as Meta key"), PuTTY and rxvt send `ESC ESC [ A` for alt+↑, xterm and most others
`ESC [ 1 ; 3 A`. Textual takes the first for the escape key and an arrow: escape would close a dialog.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from textual._xterm_parser import XTermParser
from textual.message import Message

_PREFIXED: Final = re.compile("\x1b\x1b[\\[O]([ABCD])")


class MetaParser(XTermParser):
    """Reads both forms. An escape key that comes with an arrow in one piece, as on a line that stalls, is read so too."""

    def feed(self, data: str) -> Iterable[Message]:
        """The messages of `data`, which the terminal has sent."""
        return super().feed(_PREFIXED.sub("\x1b[1;3\\1", data))


def install() -> None:
    """Have Textual's driver read with `MetaParser`; without effect where it takes its parser from elsewhere."""
    from textual.drivers import linux_driver

    linux_driver.XTermParser = MetaParser  # type: ignore[attr-defined]
