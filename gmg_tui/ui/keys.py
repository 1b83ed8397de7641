"""The one table of keys, from which bindings, footer, help and palette are made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple


class Key(NamedTuple):
    """A key, or several with the same action."""

    keys: str
    """Textual's names, separated by commas."""
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
    tune: bool = False
    """Whether the footer has it where there is a tuning."""
    group: bool = False
    """Whether the footer has it where there are groups."""
    many: bool = False
    """Whether the footer has it where there are many slots."""
    nodes: bool = False
    """Whether the footer has it where there are several nodes."""
    past: bool = False
    """Whether the footer has it, before all others, while the past is shown."""
    each: bool = False
    """Whether it is several keys, each of which its action is given."""

    @property
    def name(self) -> str:
        """What the settings call it: its label."""
        return re.sub(r"\W+", "-", self.label)

    @property
    def bound(self) -> Iterator[tuple[str, str]]:
        """What is bound: Textual's names of keys, with their action."""
        if self.each:
            yield from ((one, f"{self.action}({one})") for one in self.keys.split(","))
        else:
            yield self.keys, self.action


KEYS: tuple[Key, ...] = (
    Key("up,k", "move('up')", "↑ k", "up", "Select the worker above."),
    Key("down,j", "move('down')", "↓ j", "down", "Select the worker below."),
    Key("left,h", "move('left')", "← h", "left", "Select the worker to the left."),
    Key("right,l", "move('right')", "→ l", "right", "Select the worker to the right."),
    Key("r", "restart", "r", "restart", "Restart the worker: stop it, then start its next attempt.", True),
    Key("R", "restart_failed", "R", "restart failed", "Restart every worker that has failed or is stuck."),
    Key("x", "stop", "x", "stop", "Stop the worker: SIGINT, then SIGTERM, then SIGKILL, each after a wait.", True),
    Key("X", "kill", "X", "kill", "Kill the worker at once with SIGKILL."),
    Key("e", "edit", "e", "edit", "Edit arguments and environment of one worker or of several, and restart.", True),
    Key("enter", "details", "enter", "details", "Show the worker's charts, attempts, environment and GPU.", True),
    Key("Q", "queue", "Q", "queue", "Show the queue of a sweep: its jobs, their order, and its GPUs.", sweep=True),
    Key(
        "T",
        "tuning",
        "T",
        "tuning",
        "Show the tuning; in a plain run, start that of its number in its place.",
        tune=True,
    ),
    Key("a", "tried", "a", "tried", "Show all arguments that were tried in this session, with what each reached."),
    Key("t", "view", "t", "view", "Switch between tiles and table.", True),
    Key(
        "S",
        "sort",
        "S",
        "sort",
        "Sort the workers by slot, state, FPS or another figure; the same again reverses it.",
        many=True,
    ),
    Key(
        "backslash",
        "filter_slots",
        "\\",
        "filter",
        "Show only the workers that hold all words: of slot, node, state, job, group and reason.",
        many=True,
    ),
    Key(
        "exclamation_mark",
        "trouble",
        "!",
        "trouble",
        "Select the next worker that has failed, is lost, stuck, slow or throttled.",
        many=True,
    ),
    Key("z", "fold_node", "z", "fold node", "Fold the worker's node into one line, or unfold it.", nodes=True),
    Key("Z", "fold_all", "Z", "fold all", "Fold all nodes, or unfold all.", nodes=True),
    Key(
        "slash",
        "search",
        "/",
        "search",
        "Search the log, as it is shown; n and N go to the next and the previous match.",
        True,
    ),
    Key("f", "follow", "f", "follow", "Follow the end of the log, or pause it.", True),
    Key(
        "g",
        "group_log",
        "g",
        "ranks",
        "Show the logs of all ranks of the group together, each line with its rank, or the rank's alone.",
        group=True,
    ),
    Key("ampersand", "filter", "&", "filter log", "Show only the log's lines that hold a text."),
    Key("F", "log_folds", "F", "fold", "Fold the log's neighbouring progress lines into the newest, or show all."),
    Key("P", "log_heads", "P", "heads", "Show the head of Genesis's lines whole, or only the time."),
    Key("w", "log_wraps", "w", "wrap", "Wrap the log's long lines, or cut them."),
    Key("o", "log_pager", "o", "open log", "Open the whole log in $PAGER."),
    Key("y", "copy_line", "y", "copy line", "Copy the line of the match, else the newest in view, to the clipboard."),
    Key("Y", "copy_log_path", "Y", "copy path", "Copy the path of the log's file to the clipboard."),
    Key("n", "search_next('down')", "n", "next", "Next match."),
    Key("N", "search_next('up')", "N", "previous", "Previous match."),
    Key("pageup", "log_page('up')", "PgUp", "log up", "Scroll the log up by a page."),
    Key("pagedown", "log_page('down')", "PgDn", "log down", "Scroll the log down by a page."),
    Key("home", "log_page('home')", "Home", "log start", "Go to the first line of the log that is kept."),
    Key("end", "log_page('end')", "End", "log end", "Go to the end of the log and follow it."),
    Key("shift+left", "log_across(-1)", "shift+←", "log left", "Scroll the log to the left."),
    Key("shift+right", "log_across(1)", "shift+→", "log right", "Scroll the log to the right, where lines are cut."),
    Key(
        "left_square_bracket",
        "time_step(-1)",
        "[",
        "back",
        "Look back on the session: at the moment before this one that is kept of it; esc returns.",
        past=True,
    ),
    Key("right_square_bracket", "time_step(1)", "]", "forward", "Look at the moment after it.", past=True),
    Key("left_curly_bracket", "time_move(-0.05)", "{", "far back", "Look back by a twentieth of the session's life."),
    Key("right_curly_bracket", "time_move(0.05)", "}", "far forward", "Look forward by a twentieth of it."),
    Key(
        "0,1,2,3,4,5,6,7,8,9",
        "time_jump",
        "0-9",
        "jump",
        "Look back at so many tenths of the session's life: 0 is its beginning.",
        past=True,
        each=True,
    ),
    Key("p", "processes", "p", "processes", "Show the processes on the worker's GPU.", True),
    Key("s", "stacks", "s", "stacks", "Ask the worker, or each rank of its group, for its Python stack."),
    Key(
        "space",
        "mark",
        "space",
        "mark",
        "Mark the worker, or unmark it: r, x, X and e then act on all marked ones.",
        True,
    ),
    Key("d", "detach", "d", "detach", "Close the screen; the workers keep running (`gmg-tui attach` returns).", True),
    Key("q,ctrl+c", "quit_session", "q", "quit", "Quit: stop the workers, leave them running, or stay.", True),
    Key("question_mark", "help", "?", "help", "Show this help.", True),
    Key("ctrl+z", "suspend", "ctrl+z", "suspend", "Return to the shell for a while; fg comes back."),
    Key("ctrl+l", "redraw", "ctrl+l", "redraw", "Redraw the screen."),
    Key(
        "escape",
        "leave",
        "esc",
        "leave",
        "End the search, or else the log's filter, and follow the log; else unmark all workers; else show all; else the present.",
    ),
    Key("ctrl+p", "command_palette", "ctrl+p", "palette", "Find a command by name."),
)
"""Of the main screen and all screens opened from it."""

DETAILS: Final = (
    Key("escape", "back", "esc", "back", "Return to the main screen.", True),
    Key("left,h", "neighbour(-1)", "← h", "prev", "Show the previous worker.", True),
    Key("right,l", "neighbour(1)", "→ l", "next", "Show the next worker.", True),
    Key("tab", "section(1)", "tab", "section", "Show the next section.", True),
    Key("shift+tab", "section(-1)", "shift+tab", "section back", "Show the previous section."),
    Key("1", "show('charts')", "1", "charts", "Show the charts and the current metrics."),
    Key("2", "show('attempts')", "2", "attempts", "Show the attempts, and the metrics before and after an edit."),
    Key("3", "show('setup')", "3", "setup", "Show command line, working directory and environment."),
    Key("4", "show('GPU')", "4", "GPU", "Show the GPU: all its metrics and processes."),
    Key("plus,equals_sign", "zoom(0.5)", "+", "zoom in", "Show half as much of the worker's life in the charts."),
    Key("minus", "zoom(2)", "-", "zoom out", "Show twice as much; the axis marks restarts (r2) and edits (e3)."),
    Key("comma,less_than_sign", "pan(-0.5)", ",", "earlier", "Move zoomed charts back in time."),
    Key("full_stop,greater_than_sign", "pan(0.5)", ".", "later", "Move zoomed charts forward in time."),
    Key("0", "zoom(0)", "0", "live", "Show the worker's whole life again, up to now."),
    Key("u", "use_again", "u", "use again", "Edit and restart with the settings of the selected attempt.", True),
    Key("c", "command", "c", "command", "Show the command line with its environment, to be pasted into a shell.", True),
    Key("up,k", "scroll('up')", "↑ k", "up", "Scroll up; in section 2 select the attempt above."),
    Key("down,j", "scroll('down')", "↓ j", "down", "Scroll down; in section 2 select the attempt below."),
    Key("pageup", "scroll('page_up')", "PgUp", "page up", "Scroll up by a page."),
    Key("pagedown", "scroll('page_down')", "PgDn", "page down", "Scroll down by a page."),
    Key("home", "scroll('home')", "Home", "top", "Scroll to the top."),
    Key("end", "scroll('end')", "End", "bottom", "Scroll to the bottom."),
)
"""Of the details screen, where `r`, `x`, `X`, `e`, `p`, `d`, `q` and `?` do the same as on the main screen."""

EDIT: Final = (
    Key(
        "ctrl+s",
        "apply",
        "enter ctrl+s",
        "apply",
        "Restart with these settings; in the environment, where enter begins a line, by ctrl+s only.",
        True,
    ),
    Key("escape", "cancel", "esc", "cancel", "Close without changes.", True),
    Key("tab", "app.focus_next", "tab", "next field", "Go to the next field.", True),
    Key(
        "ctrl+a",
        "scope",
        "ctrl+a",
        "one or all",
        "Mean all workers, the marked ones, or this one again; it is remembered.",
        True,
    ),
    Key("ctrl+up,alt+up", "scale(2)", "ctrl/alt+↑", "double", "Double the number under the cursor.", True),
    Key("ctrl+down,alt+down", "scale(-2)", "ctrl/alt+↓", "halve", "Halve the number under the cursor.", True),
    Key(
        "ctrl+z,super+z",
        "undo",
        "ctrl+z",
        "undo, earlier",
        "Undo what was typed; where nothing was, take the settings of the attempt before, and so on.",
        True,
    ),
    Key("ctrl+y,super+y", "redo", "ctrl+y", "redo, later", "Do again what ctrl+z has undone."),
)
"""Of the dialog that edits arguments and environment."""

COMMAND: tuple[Key, ...] = (
    Key("y", "copy", "y", "copy", "Copy the command line to the terminal's clipboard (OSC 52).", True),
    Key("escape,c,q,ctrl+c", "cancel", "esc", "back", "Return to the details.", True),
    *(key for key in DETAILS if key.action.startswith("scroll")),
)
"""Of the dialog that shows a worker's command line."""

PROCESSES: Final = (
    Key("escape,p", "back", "esc", "back", "Return to the previous screen.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Select the process above."),
    Key("down,j", "move(1)", "↓ j", "down", "Select the process below."),
    Key("r", "refresh", "r", "refresh", "Ask for the processes again, as happens every few seconds anyway.", True),
    Key("x", "end_process(False)", "x", "SIGTERM", "Send SIGTERM to the process, after a confirmation.", True),
    Key("X", "end_process(True)", "X", "SIGKILL", "Send SIGKILL to the process, after a confirmation.", True),
)
"""Of the screen of the processes on a GPU."""

STACKS: Final = (
    Key("escape,s", "back", "esc", "back", "Return to the previous screen.", True),
    Key("r", "again", "r", "ask again", "Ask for the stacks again.", True),
    Key("y", "copy", "y", "copy", "Copy all stacks as they were written, by OSC 52.", True),
    Key("up,k", "scroll(-1)", "↑ k", "up", "Scroll up."),
    Key("down,j", "scroll(1)", "↓ j", "down", "Scroll down."),
    Key("pageup", "page(-1)", "PgUp", "page up", "Scroll up by a page."),
    Key("pagedown", "page(1)", "PgDn", "page down", "Scroll down by a page."),
    Key("home", "edge(False)", "Home", "top", "Scroll to the top."),
    Key("end", "edge(True)", "End", "bottom", "Scroll to the bottom."),
)
"""Of the screen of Python stacks, where `d`, `q` and `?` do the same as on the main screen."""

QUEUE: Final = (
    Key("escape,Q", "back", "esc", "back", "Return to the previous screen.", True),
    Key("up,k", "move(-1)", "↑ k", "select up", "Select the job above."),
    Key("down,j", "move(1)", "↓ j", "select down", "Select the job below."),
    Key("pageup", "page(-1)", "PgUp", "page up", "Select a job a page further up."),
    Key("pagedown", "page(1)", "PgDn", "page down", "Select a job a page further down."),
    Key("home", "edge(False)", "Home", "first", "Select the first job: the one that ended first."),
    Key("end", "edge(True)", "End", "last", "Select the last job: the one that starts last."),
    Key("s", "skip", "s", "skip", "Skip the job; a running one is stopped, after a confirmation.", True),
    Key("r", "retry", "r", "retry", "Run the job again, whether it was skipped, failed or finished.", True),
    Key("c", "gpus", "c", "GPUs", "Choose the GPUs that jobs may start on.", True),
    Key("u,K,shift+up", "shift('up')", "u", "up", "Move the job up by one position (also K): it starts sooner.", True),
    Key(
        "n,J,shift+down",
        "shift('down')",
        "n",
        "down",
        "Move the job down by one position (also J): it starts later.",
        True,
    ),
    Key("U", "shift('top')", "U", "top", "Move the job to the head of the queue: it starts next.", True),
    Key("f", "follow", "f", "running", "Select the first running job, and keep following the running ones.", True),
    Key("enter", "details", "enter", "details", "Show the details of a running job.", True),
    Key("R", "retry_failed", "R", "failed", "Run all failed jobs again.", True),
)
"""Of the screen of a sweep's queue, where `d`, `q` and `?` do the same as on the main screen."""

GPUS: Final = (
    Key("space,enter", "turn", "space", "on/off", "Enable or disable the GPU; a job running there goes on.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Select the GPU above."),
    Key("down,j", "move(1)", "↓ j", "down", "Select the GPU below."),
    Key("escape,c", "cancel", "esc", "back", "Return to the queue.", True),
)
"""Of the dialog that chooses a sweep's GPUs."""

TUNE: Final = (
    Key("escape,T", "back", "T", "workers", "Show the workers and their logs; T there returns.", True),
    Key("enter", "use", "enter", "run", "Run the script with the selected value on all slots, after a question.", True),
    Key("t", "part", "t", "view", "Show the curve, the trials or the slots, where they have no room at once.", True),
    Key("tab", "answer(1)", "tab", "next", "Select the next value of the answer.", True),
    Key("shift+tab", "answer(-1)", "shift+tab", "previous", "Select the previous value of the answer."),
    Key("y", "copy", "y", "copy", "Copy the command line with the selected value, by OSC 52.", True),
    Key("m", "model", "m", "model", "Show the next model of GPU, where there are several."),
    Key("left,h", "sort(-1)", "← h", "sort by left", "Sort the trials by the column to the left."),
    Key("right,l", "sort(1)", "→ l", "sort by", "Sort the trials by the column to the right.", True),
    Key("s", "reverse", "s", "reverse", "Sort the trials the other way round.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Select the trial above; the curve marks it."),
    Key("down,j", "move(1)", "↓ j", "down", "Select the trial below."),
    Key("pageup", "page(-1)", "PgUp", "page up", "Select a trial a page further up."),
    Key("pagedown", "page(1)", "PgDn", "page down", "Select a trial a page further down."),
    Key("home", "edge(False)", "Home", "first", "Select the first trial."),
    Key("end", "edge(True)", "End", "last", "Select the last trial."),
)
"""Of the screen of a tuning, where `Q`, `d`, `q`, `?` and the keys that look back do the same as on the main screen."""

TRIED: Final = (
    Key("escape,a", "back", "esc", "back", "Return to the previous screen.", True),
    Key("up,k", "move(-1)", "↑ k", "up", "Select the arguments above."),
    Key("down,j", "move(1)", "↓ j", "down", "Select the arguments below."),
    Key("pageup", "page(-1)", "PgUp", "page up", "Select those a page further up."),
    Key("pagedown", "page(1)", "PgDn", "page down", "Select those a page further down."),
    Key("home", "edge(False)", "Home", "first", "Select the first."),
    Key("end", "edge(True)", "End", "last", "Select the last."),
    Key("left,h", "order(-1)", "← h", "sort by left", "Sort by the column to the left; before the first, by start."),
    Key("right,l", "order(1)", "→ l", "sort by", "Sort by the column to the right; after the last, by start.", True),
    Key("s", "reverse", "s", "reverse", "Sort the other way round.", True),
    Key("enter", "use", "enter", "edit with these", "Open the worker's edit dialog with these arguments.", True),
)
"""Of the screen of all that was tried, where `d`, `q` and `?` do the same as on the main screen."""

ACTING: tuple[Key, ...] = tuple(key for key in KEYS if key.action in {"restart", "stop", "edit"})
"""The main screen's keys that the footer of the details screen shows too."""

COMMON: tuple[Key, ...] = tuple(key for key in KEYS if key.action in {"detach", "quit_session", "help"})
"""The main screen's keys that work on every screen, at the end of its footer."""

SIGNS: Final[dict[str, str]] = {}
"""Of built-in keys the signs of those that the user has set in their place (`ui/remapping.py`).

Those of another table than the main one have its name in the settings and a dot before them: `in-queue.r`.
"""


def now(sign: str, place: str = "") -> str:
    """The sign of the key that does what the main table has the key with this sign for; or the table of `place`."""
    return SIGNS.get(f"{place}.{sign}" if place else sign, sign)
