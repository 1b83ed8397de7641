"""The whole program with an interface that fails when drawn (`python -m`), and prints the error only once keys have arrived."""

import os
import select
from typing import NoReturn

from gmg_tui import ui
from gmg_tui.cli import app as cli
from tests.engine.harness import FAKE
from tests.patience import LONG_S

ui.load()
from gmg_tui.ui.app import GmgApp  # noqa: E402 - after its switches are set
from gmg_tui.ui.rows import Lines  # noqa: E402


def _fail(self: Lines, width: int, height: int) -> NoReturn:
    raise ValueError("it cannot be drawn")


def _said(self: GmgApp) -> None:
    os.write(1, b"it has crashed\r\n")
    select.select([0], [], [], LONG_S)


if __name__ == "__main__":
    Lines.make_rows = _fail  # type: ignore[method-assign]
    GmgApp._print_error_renderables = _said  # type: ignore[assignment,method-assign]
    cli.main(["--cpu", "1", FAKE, "--lines", "0"])
