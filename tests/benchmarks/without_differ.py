"""gmg-tui without the terminal differ, for comparison: Textual sends whole regions."""

from __future__ import annotations

from gmg_tui.cli import main
from gmg_tui.ui.terminal import internals

if __name__ == "__main__":
    internals.load_differ = lambda: None
    main()
