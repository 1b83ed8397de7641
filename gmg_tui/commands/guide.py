"""`guide`: the manual, which is `gmg_tui/guide/*.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from gmg_tui.errors import GmgError, nearest

FOLDER = Path(__file__).parent.parent / "guide"
TOPICS = (
    *("running", "screen", "tuning", "sweeps", "groups", "many-machines"),
    *("metrics", "other-scripts", "troubleshooting", "files", "options"),
)
"""The pages, in the order in which a reader meets them."""


def guide(topic: str | None) -> int:
    """Show a page of the manual, or all of them; the exit status. Raises `GmgError` where there is no such page."""
    if topic is not None and topic not in TOPICS:
        pages = [name for name in TOPICS if topic.lower() in _page(name).lower()]
        about = f"; see {', '.join(pages)}" if pages else f"; the topics are: {', '.join(TOPICS)}"
        raise GmgError(f"there is no topic {topic}{nearest(topic, TOPICS) or about}")
    text = "\n\n".join(_page(name).strip() for name in ([topic] if topic else TOPICS))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(text)
        return 0
    from gmg_tui.ui.pages.help import show

    show(text)
    return 0


def _page(topic: str) -> str:
    return (FOLDER / f"{topic}.md").read_text("utf-8")
