"""The bindings of the main screen and of all screens; `[keys]` in the settings remaps them by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.keys import Keys

from gmg_tui.model.errors import GmgError, suggest

if TYPE_CHECKING:
    from textual.events import Key
    from textual.widget import Widget


def action_of(binding: Binding) -> str:
    """Returns the name of a binding's action, without `app.` and without arguments."""
    return binding.action.removeprefix("app.").partition("(")[0]


SESSION: Final = (
    Binding("Q", "queue", "Queue", id="queue", tooltip="Show the queue of a sweep, or the trials of a tuning run."),
    Binding("a", "tried", "Tried", id="tried", tooltip="Show all arguments that were tried."),
    Binding("d", "detach", "Detach", id="detach", tooltip="Close the screen; the workers keep running."),
    Binding("ctrl+c", "quit_session", "Quit", show=False),
    Binding("q", "quit_session", "Quit", id="quit", tooltip="Quit: stop the workers or leave them running."),
    Binding("question_mark", "help", "Help", id="help", tooltip="Show the keys, the states and the metrics."),
    Binding("ctrl+p", "command_palette", "Palette", id="palette", tooltip="Find a command by name."),
)
"""Keys of every screen except dialogs."""

SCROLL: Final = (
    Binding("up,k", "go('line-up')", "Up", show=False, id="up"),
    Binding("down,j", "go('line-down')", "Down", show=False, id="down"),
    Binding("pageup", "go('up')", "Page up", show=False, id="page-up"),
    Binding("pagedown", "go('down')", "Page down", show=False, id="page-down"),
    Binding("home", "go('home')", "First", show=False, id="first"),
    Binding("end", "go('end')", "Last", show=False, id="last"),
)
"""Keys of the focused widget of a page: a table or text."""

SEARCH: Final = Binding("slash", "search", "Search", id="search", tooltip="Search the log.")
MATCHES: Final = (
    Binding("n", "search_next('down')", "Next match", id="next", tooltip="Go to the next match.", show=False),
    Binding("N", "search_next('up')", "Previous match", id="previous", tooltip="Go to the previous match.", show=False),
)
"""Keys to step through the matches in a log."""

_TROUBLE: Final = "Select the next worker that has failed or has an alert."
_COPY: Final = "Copy the selected text, or the line, row or facts that the pane shows."
_MAIN: Final = (
    Binding("up,k", "move('up')", "Up", id="up", tooltip="Select the worker above.", show=False),
    Binding("down,j", "move('down')", "Down", id="down", tooltip="Select the worker below.", show=False),
    Binding("left,h", "move('left')", "Left", id="left", tooltip="Select the worker to the left.", show=False),
    Binding("right,l", "move('right')", "Right", id="right", tooltip="Select the worker to the right.", show=False),
    Binding("r", "app.act('restart')", "Restart", id="restart", tooltip="Restart the worker."),
    Binding(
        "x", "app.act('stop')", "Stop", id="stop", tooltip="Stop the worker with SIGINT, then SIGTERM, then SIGKILL."
    ),
    Binding("X", "app.act('kill')", "Kill", id="kill", tooltip="Kill the worker with SIGKILL."),
    Binding("e", "app.edit", "Edit", id="edit", tooltip="Edit arguments and environment, then restart."),
    SEARCH,
    *MATCHES,
    Binding("tab", "tab(1)", "Next tab", id="section", tooltip="Show the next tab of the pane."),
    Binding(
        "shift+tab", "tab(-1)", "Previous tab", id="previous-section", tooltip="Show the previous tab.", show=False
    ),
    Binding("enter", "details", "Enlarge", id="details", tooltip="Enlarge the pane; in it, open a metric or attempt."),
    Binding("escape", "back", "Back", id="back", tooltip="Clear the search, shrink the pane, clear marks or filter."),
    Binding("exclamation_mark", "trouble", "Next problem", id="trouble", tooltip=_TROUBLE),
    Binding("space", "mark", "Mark", id="mark", tooltip="Mark the worker: actions apply to all marked."),
    Binding("p", "show_tab('Processes')", "Processes", id="processes", tooltip="Show the processes on the GPU."),
    Binding("w", "show_tab('Why')", "Why", id="why", tooltip="Show why the worker is slow; enter takes stacks there."),
    Binding("t", "view", "View", id="view", tooltip="Switch between tiles and table."),
    Binding("f", "follow", "Follow", id="follow", tooltip="Follow the end of the log, or pause."),
    Binding("y", "copy_line", "Copy", id="copy", tooltip=_COPY),
    Binding("pageup", "go('up')", "Page up", id="page-up", tooltip="Scroll the pane up a page.", show=False),
    Binding("pagedown", "go('down')", "Page down", id="page-down", tooltip="Scroll the pane down a page.", show=False),
    Binding("home", "go('home')", "Start", id="first", tooltip="Go to the start of the pane.", show=False),
    Binding("end", "go('end')", "End", id="last", tooltip="Go to the end of the pane, and follow the log.", show=False),
)
_EVERYWHERE: Final = tuple(replace(binding, action=f"app.{binding.action}") for binding in SESSION)
MAIN: Final = tuple(replace(binding, priority=True) for binding in (*_MAIN, *_EVERYWHERE))
"""Keys of the main screen. They have priority, so that a key typed after one that opens a page reaches the page."""

COMMANDS: Final = (
    ("Restart failed workers", "Restart every worker that has failed or is stuck.", "restart_failed"),
    (
        "Do not use this GPU for jobs",
        "Start no more jobs on the worker's GPU; a running one continues.",
        "use_gpu(False)",
    ),
    ("Use this GPU for jobs again", "Let jobs start on the worker's GPU again.", "use_gpu(True)"),
    ("Redraw", "Draw the whole screen again.", "redraw"),
)
"""Palette entries of every screen, for actions without a key: title, explanation, action."""

MAIN_COMMANDS: Final = (
    ("Filter workers", "Show only workers with these words in slot, state, job, group or reason.", "filter_workers"),
    ("Fold node", "Fold the selected worker's node into one line, or unfold it.", "fold"),
    ("Show Python stacks", "Show the Python stacks of the worker, or of each rank of its group.", "stacks"),
    ("Show log of attempt", "Show the log from the start of the attempt selected in Attempts.", "attempt_log"),
)
"""Palette entries of the main screen, for actions without a key, except those for tabs and sorting."""

WORKER_ACTIONS: Final = frozenset({"act", "restart_failed", "edit", "stacks", "use_gpu"})
"""Actions on workers; unavailable on pages."""

_JOB_ACTIONS: Final = frozenset({"skip", "retry", "retry_failed"})
CHANGING_ACTIONS: Final = WORKER_ACTIONS | _JOB_ACTIONS | {"mark", "use"}
"""Actions that change workers or jobs, or prepare a change; unavailable on read-only screens."""

DISPLAY_NAMES: Final = {"enter": "enter", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End"}
"""Display names that differ from Textual's, by key."""
_ALIASES: Final = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}
_MODIFIERS: Final = {"ctrl", "alt", "shift"}
_QUIT_KEY: Final = "ctrl+c"
"""The key that always quits, whatever the settings say."""
keymap: Final[dict[str, str]] = {}
"""The user's keys by binding id, for `App.set_keymap`."""


def keys_of(binding: Binding) -> list[str]:
    """Returns the keys of a binding: the user's, else its own."""
    return keymap.get(binding.id or "", binding.key).split(",")


def ids() -> list[str]:
    """Returns the ids of all remappable bindings."""
    return list(dict.fromkeys(binding.id for binding in MAIN if binding.id))


def keys_with_id(name: str) -> list[str]:
    """Returns the keys of the main screen's binding with the id `name`."""
    return next(keys_of(binding) for binding in MAIN if binding.id == name)


def display_name(app: App[Any], name: str) -> str:
    """Returns the display name of the first key of the binding with the id `name`."""
    return app.get_key_display(Binding(keys_with_id(name)[0], "none"))


async def act_in_order(widget: Widget, event: Key) -> None:
    """Runs a key's action before a text field inserts the next key: a slow connection delivers several at once."""
    active = widget.screen.active_bindings.get(event.key) if widget.screen.is_active else None
    if active is not None and not event.is_printable:
        event.prevent_default().stop()
        await widget.app.run_action(active.binding.action, active.node)


def remap(chosen_keys: Mapping[str, Sequence[str]]) -> None:
    """Remaps keys by binding id, before the interface starts. Raises `GmgError` for unknown names and conflicts."""
    if unknown := [name for name in chosen_keys if name not in ids()]:
        raise GmgError(f"[keys] there is no action {unknown[0]}{suggest(unknown[0], ids())}")
    chosen = {name: [_textual_name(name, key) for key in given] for name, given in chosen_keys.items()}
    owners: dict[str, str] = {_QUIT_KEY: "quit"}
    for name in ids():
        built_in = [key for key, binding in BindingsMap([*MAIN]) if binding.id == name]
        for key in chosen.get(name, built_in):
            if owners.setdefault(key, name) != name:
                changed, other = (name, owners[key]) if name in chosen else (owners[key], name)
                raise GmgError(f"[keys] {changed}: {key} is already bound to {other}; remap {other} too")
    keymap.update({name: ",".join(given) for name, given in chosen.items()})


def _textual_name(name: str, key: str) -> str:
    """Returns Textual's name for a key. Raises `GmgError` if there is none."""
    *modifiers, base = key.split("+") if len(key) > 1 else [key]
    base = base if len(base) == 1 and not modifiers else _ALIASES.get(base.lower(), base.lower())
    exists = (len(base) == 1 and base.isprintable() and base != " ") or base in {known.value for known in Keys}
    if not exists or not _MODIFIERS.issuperset(map(str.lower, modifiers)):
        raise GmgError(f"[keys] {name}: there is no key {key}; give a character, or ctrl+x, f5, enter, pageup, space …")
    bindings = BindingsMap([Binding("+".join([*map(str.lower, modifiers), base]), "none")])
    return next(iter(bindings.key_to_bindings))
