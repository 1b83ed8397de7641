"""The one table of keys: it makes the bindings, the footer, the help screen and the palette."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """What one key, or a few that do the same, does on the main screen."""

    keys: str
    """As Textual names them, separated by commas."""
    action: str
    """The app's action, `action_…`."""
    shown: str
    """The key as the footer and the help show it."""
    label: str
    """One or two words for the footer."""
    help: str
    """One sentence for the help screen."""
    footer: bool = False
    """Whether the footer has it."""
    sweep: bool = False
    """Whether the footer has it where there is a queue."""


KEYS: tuple[Key, ...] = (
    Key("up,k", "move('up')", "↑ k", "up", "Choose the worker above."),
    Key("down,j", "move('down')", "↓ j", "down", "Choose the worker below."),
    Key("left,h", "move('left')", "← h", "left", "Choose the worker to the left."),
    Key("right,l", "move('right')", "→ l", "right", "Choose the worker to the right."),
    Key("r", "restart", "r", "restart", "Restart the worker: stop it in order, then start its next attempt.", True),
    Key("R", "restart_failed", "R", "restart failed", "Restart every worker that failed or is stuck."),
    Key("x", "stop", "x", "stop", "Stop the worker: SIGINT, then SIGTERM, then SIGKILL, each after its wait.", True),
    Key("X", "kill", "X", "kill", "Kill the worker now, by SIGKILL."),
    Key(
        "e",
        "edit",
        "e",
        "edit",
        "Edit arguments and environment of this worker or of all, and restart with them.",
        True,
    ),
    Key(
        "enter",
        "details",
        "enter",
        "details",
        "Show the worker's charts, attempts, environment and card; esc returns.",
        True,
    ),
    Key("Q", "queue", "Q", "queue", "Show the queue of a sweep: its jobs, their order, and the cards.", sweep=True),
    Key("t", "view", "t", "table", "Switch between cards and table.", True),
    Key("slash", "search", "/", "search", "Search the log; n and N go to the next and the one before.", True),
    Key("f", "follow", "f", "follow", "Follow the log, or hold it where it is.", True),
    Key("n", "search_next('down')", "n", "next", "Go to the next place that the search found."),
    Key("N", "search_next('up')", "N", "previous", "Go to the place before."),
    Key("pageup", "log_page('up')", "PgUp", "log up", "Scroll the log up by a page."),
    Key("pagedown", "log_page('down')", "PgDn", "log down", "Scroll the log down by a page."),
    Key("home", "log_page('home')", "Home", "log start", "Go to the first line of the log that is kept."),
    Key("end", "log_page('end')", "End", "log end", "Go to the log's end and follow it."),
    Key("shift+left", "log_across(-1)", "shift+←", "log left", "Move the log to the left."),
    Key("shift+right", "log_across(1)", "shift+→", "log right", "Move the log to the right, where lines are cut."),
    Key("p", "processes", "p", "processes", "Show the processes on the worker's card.", True),
    Key("d", "detach", "d", "detach", "Leave the screen; the workers go on (`gmg-tui attach` returns).", True),
    Key("q,ctrl+c", "quit_session", "q", "quit", "Quit: stop the workers, leave them running, or stay.", True),
    Key("question_mark", "help", "?", "help", "Show this help.", True),
    Key("ctrl+l", "redraw", "ctrl+l", "redraw", "Draw the whole screen again."),
    Key("escape", "leave_search", "esc", "leave", "Leave the search, and follow the log again."),
    Key("ctrl+p", "command_palette", "ctrl+p", "palette", "Find a command by its name."),
)
