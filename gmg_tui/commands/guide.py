"""`guide`: the manual, which is `gmg_tui/guide/*.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from gmg_tui.errors import GmgError, nearest
from gmg_tui.options import KEPT, LINE, RUN, SWEEP_ONLY, TUNE_ONLY

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


_TABLES = (
    ("Options of run, demo, tune and sweep", RUN),
    ("Further options of tune", TUNE_ONLY),
    ("Further options of sweep", SWEEP_ONLY),
)
_HEAD = """\
# Options

All of them may stand in `~/.config/gmg-tui/config.toml` under their names without dashes, except those marked with *:
above all tables for every command, or in a table such as `[sweep]` for one. Options marked with † are usually set there;
`--help` leaves them out. The command line overrides the file, and `--env` adds to it, name by name.

```toml
theme = "light"
sigint-wait = 30
env = ["WANDB_MODE=offline"]

[sweep]
per-gpu = 2

[keys]
restart = "f5"
```
"""


def options_page() -> str:
    """The text of `options.md`, made from the declarations in `gmg_tui.options`."""
    lines = [_HEAD.rstrip()]
    for title, options in _TABLES:
        lines += ["", f"## {title}", "", "| option | meaning | default |", "|---|---|---|"]
        for opt in options:
            value = "" if opt.is_flag else f" {opt.metavar}"
            marks = f"{' *' if LINE in opt.marks else ''}{' †' if KEPT in opt.marks else ''}"
            default = opt.default if opt.default not in (None, False, ()) else "–"
            default = f"{default:g}" if isinstance(default, float) else default
            meaning = opt.help.partition(" [default")[0].replace("|", "\\|")
            lines.append(f"| `{opt.long}{value}`{marks} | {meaning} | {default} |")
    return "\n".join(lines) + "\n"
