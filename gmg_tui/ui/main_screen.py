"""The main screen: headline, workers, pane and keys, with their actions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.events import Key
from textual.geometry import Size

from gmg_tui.model import Settings
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Action
from gmg_tui.ui import keys, terminal
from gmg_tui.ui.dialogs import LineBar, open_line
from gmg_tui.ui.header import header_rows
from gmg_tui.ui.log.source import LogSource
from gmg_tui.ui.pane.metrics_tab import MetricsTab
from gmg_tui.ui.pane.pane import Pane
from gmg_tui.ui.pane.why_tab import WhyTab
from gmg_tui.ui.rows import KeysFooter, Lines, is_seen
from gmg_tui.ui.session_app import SessionApp
from gmg_tui.ui.slots import ORDERS
from gmg_tui.ui.terminal import TrueSizeScreen
from gmg_tui.ui.view import Tab, View
from gmg_tui.ui.workers.grid import Grid


class MainScreen(TrueSizeScreen[None]):
    """The screen with all workers, and a pane for the selected one."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.MAIN]
    AUTO_FOCUS = ""
    app: SessionApp

    def __init__(self, view: View, engine: Source) -> None:
        super().__init__()
        self._view = view
        self.header = Lines(partial(header_rows, view), id="header")
        self.grid = Grid(view)
        self.pane = Pane(view, engine)
        self.log_view = self.pane.log_view
        self._laid_out_size = Size(0, 0)
        """The terminal's size when the rows were last laid out."""

    def compose(self) -> ComposeResult:
        """Yields the widgets, from top to bottom."""
        yield from (self.header, self.grid, self.pane)
        yield KeysFooter(self.has_effect)

    def on_mount(self) -> None:
        """Lays out the rows, and starts watching for snapshots."""
        self.lay_out_rows()
        self.watch(self.app, "snapshot", self._update, init=False)

    def _update(self) -> None:
        self.open_log()
        self.lay_out_rows()

    def on_resize(self) -> None:
        """Lays out the rows once per size: Textual 8.2.8 posts the same size several times."""
        if self.app.size != self._laid_out_size:
            self.lay_out_rows()

    def lay_out_rows(self) -> None:
        """Draws the header, then the workers in the rows they need; the pane takes the rest."""
        if self.is_mounted and is_seen(self):
            self._laid_out_size = self.app.size
            self.header.display = self.grid.display = not self._view.maximized
            if not self._view.maximized:
                self.grid.lay_out(self.app.size.height - self.header.fit() - 1)
            self.pane.update()

    def on_key(self, event: Key) -> None:
        """Swallows keys without effect, so that an opening page does not get them; says why a bound key has none."""
        if self.focused is None:
            event.stop()
            for binding in keys.MAIN:
                if event.key in keys.keys_of(binding) and (reason := self.unavailable_reason(keys.action_of(binding))):
                    self.app.say(f"{binding.description} is not possible: {reason}.")

    def on_screen_resume(self) -> None:
        """Redraws everything that changed while another screen covered this one."""
        if self.app.screen_stack:  # else the app is exiting
            self.app.refresh_view()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns True if `action` is available."""
        if self.focused is not None:  # text input is active
            return action in {"focus_next", "copy_text"}
        return self._back_action() is not None if action == "back" else not self.unavailable_reason(action)

    def unavailable_reason(self, action: str) -> str:
        """Returns the reason why an action is unavailable on this screen; empty if it is available."""
        reasons = {
            "mark": "the pane hides the workers; esc shows them" if self._view.maximized else "",
            "search_next": "" if self.log_view.search.query.text else "there is no search; / starts one",
            "fold": "" if self._view.nodes else "the session has only one machine",
        }
        return reasons.get(action) or self.app.unavailable_reason(action)

    def has_effect(self, action: str) -> bool:
        """Returns False if the keys of `action` would do nothing, or only show a message."""
        if action == "app.edit":
            return bool(self.app.target_workers(None))
        if action.startswith("app.act("):
            return bool(self.app.target_workers(Action(action.split("'")[1])))
        return bool(self._view.selected) or action not in {"mark", "details"}

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The bindings, with `enter` named after its current action, or left out if it has none."""
        active, (name, _) = super().active_bindings, self._enter_action()
        return {
            key: item
            if item.binding.id != "details"
            else item._replace(binding=replace(item.binding, description=name))
            for key, item in active.items()
            if name or item.binding.id != "details"
        }

    @property
    def palette(self) -> tuple[tuple[str, str, str], ...]:
        """The palette entries for actions without a key: title, explanation and action."""
        tabs = [tab for tab in Tab if tab not in {Tab.PROCESSES, Tab.WHY}]  # these have keys
        show = ((f"Show {tab.lower()}", "Show this tab of the pane.", f"show_tab({tab.value!r})") for tab in tabs)
        sort = ((f"Sort by {by.heading}", "Sort the workers.", f"sort_by({name!r})") for name, by in ORDERS.items())
        return (*keys.MAIN_COMMANDS, *show, *sort)

    # Workers

    def action_move(self, direction: str) -> None:
        """Selects a neighbour; with the pane enlarged, up and down scroll the pane."""
        if self._view.maximized and direction in {"up", "down"}:
            self.pane.tab_widget.action_go(f"line-{direction}")
        elif self._view.move(direction, 1 if self._view.maximized else self.grid.plan.columns):
            self.app.refresh_view()

    def _enter_action(self) -> tuple[str, Callable[[], object]]:
        """Returns the name of the current action of `enter` (empty if it has none), and the function to call."""
        view, tab, attempt = self._view, self.pane.tab_widget, self.pane.attempt
        if view.folded_node and not view.maximized:
            return "Unfold", self.action_fold
        worker, may_take_stacks = view.worker_on(view.selected), not self.app.unavailable_reason("stacks")
        if isinstance(tab, WhyTab) and worker is not None and worker.state.live and may_take_stacks:
            return "Take stacks", self._take_stacks
        if not view.maximized:
            enlarge = partial(self._maximize, on=True) if view.selected else partial(self.app.say, view.empty_text)
            return "Enlarge", enlarge
        if isinstance(tab, MetricsTab) and (tab.chart or tab.table.selected is not None):
            return "Table" if tab.chart else "Chart", self.pane.toggle_chart
        if attempt is not None and not self.app.unavailable_reason("edit"):
            return "Edit with these", partial(self.app.action_edit, Settings(attempt.given, attempt.env))
        return "", lambda: None

    async def action_details(self) -> None:
        """Unfolds a node, takes stacks in Why, enlarges the pane, or opens the item selected in the enlarged pane."""
        if isawaitable(result := self._enter_action()[1]()):
            await result
        self.refresh_bindings()

    def _take_stacks(self) -> None:
        if isinstance(self.pane.tab_widget, WhyTab):
            self.pane.tab_widget.sample_stacks()
            self._maximize(on=True)

    def _maximize(self, *, on: bool) -> None:
        self._view.maximized = on
        if self._view.selected not in self._view.slots:
            self._view.sort_by(self._view.order)  # selects a shown slot
        self.app.refresh_view()

    async def action_show_tab(self, name: str) -> None:
        """Shows the tab called `name`."""
        await self.pane.show(Tab(name))
        self.refresh_bindings()

    async def action_tab(self, step: int) -> None:
        """Shows the tab that is `step` tabs to the right, wrapping around."""
        tabs = list(Tab)
        await self.action_show_tab(tabs[(tabs.index(self._view.tab) + step) % len(tabs)])

    async def action_stacks(self) -> None:
        """Shows the Python stacks of the selected worker, or of each rank of its group."""
        if not self.app.target_slots():
            self.app.say_no_target()
            return
        await self.action_show_tab(Tab.WHY)
        self._maximize(on=True)
        if isinstance(self.pane.tab_widget, WhyTab):
            self.pane.tab_widget.show_stacks()

    def action_mark(self) -> None:
        """Marks or unmarks the selected worker, or all workers of a folded node."""
        view = self._view
        if view.folded_node:
            workers = set(view.slots_of(view.folded_node))
            view.marked = view.marked - workers if workers <= view.marked else view.marked | workers
        elif view.selected:
            view.marked ^= {view.selected}
        self.app.refresh_view()

    def _back_action(self) -> Callable[[], object] | None:
        """Returns the function that goes back one step; None if there is no step back."""
        view, tab = self._view, self.pane.tab_widget
        if self.log_view.search.query.text:
            return partial(self.log_view.search_for, "")
        if isinstance(tab, MetricsTab) and tab.chart:
            return self.pane.toggle_chart
        if view.maximized:
            return partial(self._maximize, on=False)
        if view.marked:
            return view.marked.clear
        return partial(view.show_only, "") if view.filter else None

    async def action_back(self) -> None:
        """Undoes the first of these that is active: search, chart, enlarged pane, marks, filter."""
        if (go_back := self._back_action()) is not None:
            if isawaitable(result := go_back()):
                await result
            self.app.refresh_view()

    def action_view(self) -> None:
        """Switches between tiles and table."""
        self._view.tiles = not self.grid.plan.tiles
        self.app.refresh_view()
        if self._view.tiles and not self.grid.plan.tiles:
            self.app.say("There is no room for tiles in this terminal.")

    def action_trouble(self) -> None:
        """Selects the next worker in trouble, wrapping around."""
        view, trouble = self._view, self._view.slots_in_trouble()
        others = [name for name in trouble if name != view.selected or view.folded_node]
        if not others:
            self.app.say(f"No {'other ' if trouble else ''}worker has problems.")
            return
        # Workers hidden by the filter come last, and are shown once selected.
        others = [name for name in view.slots if name in others] or others
        numbers = {name: number for number, name in enumerate(view.slots)}
        # A folded node's line comes before all of its workers.
        start = numbers[view.slots_of(view.folded_node)[0]] - 1 if view.folded_node else numbers.get(view.selected, -1)
        target = next((name for name in others if numbers.get(name, -1) > start), others[0])
        view.folded.discard(view.node_of(target))
        view.choose(target)
        self.app.refresh_view()

    def action_choose(self, slot: str) -> None:
        """Selects a worker, or enlarges the pane of the selected one."""
        self.app.select(slot, maximize=slot == self._view.selected)

    # Order, filter, folds

    def action_sort_by(self, name: str) -> None:
        """Sorts by the column called `name`."""
        self._view.sort_by(name)
        self.app.refresh_view()
        self.grid.go_to_top()

    async def action_filter_workers(self) -> None:
        """Opens the filter line."""
        hint = "words to match: slot, node, state, job, group, GPU or reason"
        await open_line(self, LineBar(self._view.filter, hint, self.filter_workers))

    def filter_workers(self, text: str) -> None:
        """Shows only the workers that match the filter `text`."""
        self._view.show_only(text)
        self.app.refresh_view()

    def action_fold(self, node: str = "") -> None:
        """Folds or unfolds a node (empty: the selected worker's), and selects its first worker if none is selected."""
        view = self._view
        node = node or view.node_of(view.selected)
        if view.node_of(view.selected) != node and (slots := view.slots_of(node)):
            view.choose(slots[0])
        view.folded ^= {node}
        self.app.refresh_view()

    # The log

    def open_log(self) -> None:
        """Opens the log of the selected worker, unless it is already open."""
        name = self._view.selected
        if self.log_view.source.name != name:
            self.log_view.open(LogSource(name, partial(self.app.log_path, name)))

    async def action_follow(self) -> None:
        """Shows the log or, if it is shown already, starts or stops following it."""
        log = self.log_view
        if self._view.tab is not Tab.LOG:
            await self.action_show_tab(Tab.LOG)
        else:
            (log.pause if log.source.following else log.follow)()

    def action_go(self, direction: str) -> None:
        """Scrolls the pane, or moves the cursor of its table."""
        self.pane.tab_widget.action_go(direction)

    async def action_attempt_log(self) -> None:
        """Shows the log from the start of the selected attempt."""
        if (attempt := self.pane.attempt) is None:
            self.app.say("No attempt is selected: the Attempts tab lists them.")
            return
        await self.action_show_tab(Tab.LOG)
        if attempt.number > 1:
            self.log_view.search_for(f"attempt {attempt.number} · ")
        else:  # the first attempt has no separator
            self.log_view.action_go("home")

    async def action_search(self) -> None:
        """Shows the log, and opens the search line."""
        await self.action_show_tab(Tab.LOG)
        await open_line(self, LineBar(self.log_view.search.query.text, "search the log", self.log_view.search_for))

    def action_search_next(self, direction: str) -> None:
        """Goes to the next match `up` or `down`."""
        self.log_view.action_search_next(direction)

    async def action_copy_line(self) -> None:
        """Copies the text selected with the mouse, else the pane's current line, row or facts."""
        if text := self.get_selected_text() or self.pane.tab_widget.text:
            self.app.say(await terminal.copy(self.app, text))
        else:
            self.app.say("There is nothing to copy.")
