"""The keys of the screens beside the main one, in the form of the main table (`ui.keys`)."""

from __future__ import annotations

from typing import Final

from gmg_tui.ui.keys import KEYS, Key

DETAILS: Final = (
    Key("escape", "back", "esc", "back", "Return to the main screen.", True),
    Key("left,h", "neighbour(-1)", "← h", "prev", "Show the worker before.", True),
    Key("right,l", "neighbour(1)", "→ l", "next", "Show the next worker.", True),
    Key("tab", "section(1)", "tab", "section", "Show the next section.", True),
    Key("shift+tab", "section(-1)", "shift+tab", "section back", "Show the section before."),
    Key("1", "show('charts')", "1", "charts", "Show the charts and the current figures."),
    Key("2", "show('attempts')", "2", "attempts", "Show the attempts, and the figures before and after an edit."),
    Key("3", "show('setup')", "3", "setup", "Show command line, folder and environment."),
    Key("4", "show('card')", "4", "card", "Show the card: all its figures and its processes."),
    Key("up,k", "scroll('up')", "↑ k", "up", "Scroll up."),
    Key("down,j", "scroll('down')", "↓ j", "down", "Scroll down."),
    Key("pageup", "scroll('page_up')", "PgUp", "page up", "Scroll up by a page."),
    Key("pagedown", "scroll('page_down')", "PgDn", "page down", "Scroll down by a page."),
    Key("home", "scroll('home')", "Home", "top", "Scroll to the top."),
    Key("end", "scroll('end')", "End", "bottom", "Scroll to the bottom."),
)
"""Of the details screen; `r`, `x`, `X`, `e`, `p`, `d`, `q` and `?` do there what they do on the main screen."""

EDIT: Final = (
    Key("ctrl+s", "apply", "ctrl+s", "apply", "Restart with what is written.", True),
    Key("escape", "cancel", "esc", "cancel", "Close; nothing changes.", True),
    Key("tab", "app.focus_next", "tab", "next field", "Go to the next field.", True),
    Key("ctrl+up,alt+up", "scale(2)", "ctrl+↑", "double", "Double the number under the cursor.", True),
    Key("ctrl+down,alt+down", "scale(-2)", "ctrl+↓", "halve", "Halve the number under the cursor.", True),
)
"""Of the dialog that edits arguments and environment."""

PROCESSES: Final = (
    Key("escape,p", "back", "esc", "back", "Return to the screen before.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Choose the process above.", True),
    Key("down,j", "move(1)", "↓ j", "down", "Choose the process below.", True),
    Key("x", "end_process(False)", "x", "end by SIGTERM", "Send SIGTERM to the process, after a question.", True),
    Key("X", "end_process(True)", "X", "end by SIGKILL", "Send SIGKILL to the process, after a question.", True),
)
"""Of the screen of the processes on a card."""

QUEUE: Final = (
    Key("escape,Q", "back", "esc", "back", "Return to the screen before.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Choose the job above."),
    Key("down,j", "move(1)", "↓ j", "down", "Choose the job below."),
    Key("pageup", "page(-1)", "PgUp", "page up", "Choose a job a page further up."),
    Key("pagedown", "page(1)", "PgDn", "page down", "Choose a job a page further down."),
    Key("home", "edge(False)", "Home", "first", "Choose the first job: the one that ended first."),
    Key("end", "edge(True)", "End", "last", "Choose the last job: the one that starts last."),
    Key("f", "follow", "f", "running", "Go to the first job that runs, and stay with those that run.", True),
    Key("u,shift+up", "shift('up')", "u", "up", "Move the job one place up: it starts sooner.", True),
    Key("n,shift+down", "shift('down')", "n", "down", "Move the job one place down: it starts later.", True),
    Key("U", "shift('top')", "U", "top", "Move the job to the head of the queue: it starts next.", True),
    Key("s", "skip", "s", "skip", "Do not run the job; one that runs is stopped, after a question.", True),
    Key("r", "retry", "r", "retry", "Run the job again, whether it was skipped, failed or finished.", True),
    Key("R", "retry_failed", "R", "failed", "Run all jobs again that have failed.", True),
    Key("c", "cards", "c", "cards", "Choose the cards that jobs may start on.", True),
    Key("enter", "details", "enter", "details", "Show the details of the job while it runs.", True),
)
"""Of the screen of a sweep's queue; `d`, `q` and `?` do there what they do on the main screen."""

CARDS: Final = (
    Key(
        "space,enter",
        "turn",
        "space",
        "use or not",
        "Use the card, or leave it; a job that runs there goes on.",
        True,
    ),
    Key("up,k", "move(-1)", "↑ k", "up", "Choose the card above.", True),
    Key("down,j", "move(1)", "↓ j", "down", "Choose the card below.", True),
    Key("escape,c", "cancel", "esc", "back", "Return to the queue.", True),
)
"""Of the dialog that chooses a sweep's cards."""

ACTING: Final = tuple(key for key in KEYS if key.action in {"restart", "stop", "kill", "edit", "help"})
"""What the foot of the details screen has of the main screen's keys."""
