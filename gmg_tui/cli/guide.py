"""`guide`: show the manual."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gmg_tui.model.errors import GmgError, nearest

GUIDE = Path(__file__).parents[1] / "guide"
TOPICS = (
    *("running", "screen", "alerts", "why", "tuning", "sweeps", "checkpoints", "groups", "sharing"),
    *("many-machines", "metrics", "other-scripts", "troubleshooting", "files", "security", "options", "changes"),
)
"""The pages of the manual, in reading order."""


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Returns the topics that begin with an incomplete word."""
    return [topic for topic in TOPICS if topic.startswith(incomplete)]


def guide(topic: str | None) -> int:
    """Opens a page of the manual, or all of it, or prints it without a terminal. Raises `GmgError`."""
    pages = {name: Path(GUIDE, f"{name}.md").read_text("utf-8").strip() for name in TOPICS}
    if topic is not None and topic not in pages:
        found = [name for name, text in pages.items() if topic.lower() in text.lower()]
        about = f"; see {', '.join(found)}" if found else f"; the topics are: {', '.join(TOPICS)}"
        raise GmgError(f"there is no topic {topic}{nearest(topic, TOPICS) or about}")
    text = pages[topic] if topic is not None else "\n\n".join(pages.values())
    if sys.stdin.isatty() and sys.stdout.isatty():
        from gmg_tui.ui.pages.help import GuideApp

        GuideApp(text, contents=topic is None).run()
    else:
        print(text)
    return 0
