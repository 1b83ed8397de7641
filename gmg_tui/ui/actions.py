"""What the keys do: the app without its start and its events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from textual import work
from textual.binding import Binding
from textual.screen import Screen

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import Settings, Worker, WorkerState
from gmg_tui.protocol import Action, Seen
from gmg_tui.source import Source
from gmg_tui.ui.arrange_actions import ArrangeActions
from gmg_tui.ui.drawing import refusals, themes
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.keys import KEYS, Key, now
from gmg_tui.ui.messages import Replace, UseArguments
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.state import Outcome, Scope, View
from gmg_tui.ui.terminal import suspension
from gmg_tui.ui.terminal.key_order import KeyOrder
from gmg_tui.ui.terminal.pending_keys import PendingKeys
from gmg_tui.ui.widgets.grid import NO_GPU, NO_MATCH

if TYPE_CHECKING:
    from gmg_tui.ui.terminal.differ import Differ

T = TypeVar("T")

OPENING_S = 3.0
"""How long keys wait for a dialog that needs the engine's answer before it can be shown."""
LOG_TAIL = 1000
"""Earlier lines to request when a worker is selected."""
_MAIN_ONLY = frozenset(
    {"move", "mark", "view", "follow", "search", "search_next", "log_page", "log_across", "details", "leave"}
    | {"filter", "group_log", "log_folds", "log_heads", "log_wraps", "log_pager", "copy_line", "copy_log_path"}
    | {"sort", "filter_slots", "trouble", "fold_node", "fold_all", "time_step", "time_move", "time_jump"}
)
"""Actions that make no sense while another screen covers the main one."""
_ANYWHERE = frozenset({"redraw", "suspend"})
"""Actions of keys that work over a dialog and in a text field too."""
_KEYED = frozenset(key.action.partition("(")[0] for key in KEYS)


class Actions(ArrangeActions, inherit_bindings=False):
    """An app with the actions of all keys. Each request to the engine is a task, so that keys are answered meanwhile."""

    engine: Source
    differ: Differ | None
    keys: PendingKeys
    ascii_only: bool
    confirm: bool
    """Whether to ask before much running is lost."""

    @property
    def appearance(self) -> Appearance:
        """The styles and signs of the present theme."""
        return themes.make_appearance(self.get_css_variables(), ascii_only=self.ascii_only)

    def draw(self) -> None:
        """Draw what the state says now on the screen that is on top, if one is left; another one catches up when it is."""
        with self.batch_update():
            if self.screen_stack and isinstance(self.screen, LiveScreen):
                self.screen.show_state()

    def forget_terminal(self) -> None:
        """Send whole frames next time: the terminal may not show what was sent."""
        if self.differ is not None:
            self.differ.forget()

    def finish(self, how: str, reason: str = "") -> None:
        """End the interface; the engine goes on without it. How the session is counts, not the moment that is looked at."""
        self.exit(Outcome(how, self.state.session, self.state.newest, reason, self.state.after))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether `action` can be done now."""
        if action != "at_once":
            return self._works_on(self.screen, action)
        if isinstance(self.screen.focused, KeyOrder):
            return parameters[0] == "redraw"  # ctrl+z undoes in some fields
        return parameters[0] in _ANYWHERE or (self.screen is self.main and self.main.focused is None)

    def _works_on(self, screen: Screen[object], action: str) -> bool:
        if action in _ANYWHERE:
            return True
        taken = screen.TAKES if isinstance(screen, LiveScreen) else None
        if taken is not None and action in _KEYED and action not in taken:
            return False  # a screen that does not show the selected worker must not act on it
        return screen is self.main or action not in _MAIN_ONLY or (taken is not None and action in taken)

    def offers(self, screen: Screen[object], key: Key) -> bool:
        """Whether `key` of the main table does something on `screen`, which may have it for something else."""
        own = {name for one in screen.BINDINGS if isinstance(one, Binding) for name in one.key.split(",")}
        action = key.action.partition("(")[0]
        log = self.main.log_view.buffer
        idle = {"search_next": not log.query, "leave": not self._to_leave}
        if idle.get(action):
            return False
        if action == "group_log" and not self.state.snapshot.groups:
            return False
        if action in {"fold_node", "fold_all"} and not self.state.folds.slots:
            return False
        if (action == "queue" and self.state.queue is None) or (action == "tuning" and not self.state.snapshot.tuning):
            return False
        return self._works_on(screen, action) and key.keys.partition(",")[0] not in own

    @property
    def _to_leave(self) -> bool:
        """Whether `esc` has something to end on the main screen."""
        log, state = self.main.log_view.buffer, self.state
        return bool(log.query or log.filter or state.marked or state.arrangement.filter)

    async def action_at_once(self, action: str) -> None:
        """Run the action of a main screen's key before the next key is looked at."""
        await self.run_action(action)

    def say(self, message: str) -> None:
        """Show why something could not be done; an empty message clears the last one."""
        if self.state.message != message:
            self.state.message = message
            self.draw()

    def _ask(self, request: Callable[[], Awaitable[object]]) -> None:
        self.say("")
        self._answered(request)

    def _open(self, opening: Callable[[], Awaitable[object]]) -> None:
        """Open a screen that asks something; keys that follow at once are meant for it."""

        async def opened() -> None:
            try:
                await opening()
            finally:
                self.keys.drop()  # the screen could not be shown, and another must not get what was meant for it

        self.keys.begin()
        self._ask(opened)

    async def _show(self, screen: Screen[T]) -> T | None:
        """Put `screen` on top, give it the pending keys, and wait for its answer."""
        answered: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        await self.push_screen(screen, callback=answered.set_result)
        await self.keys.release()
        return await answered

    @work(group="requests")
    async def _answered(self, request: Callable[[], Awaitable[object]]) -> None:
        try:
            await request()
        except GmgError as error:
            self.say(str(error))

    # The selected worker

    def action_move(self, direction: str) -> None:
        """Select the neighbour."""
        if self.state.move(direction, self.main.grid.plan.columns):
            self.on_selection_changed()

    def on_selection_changed(self) -> None:
        """Draw the selection, also one made on a screen, and open the worker's log."""
        self.main.grid.draw()
        self.open_log()

    def open_log(self, *, anew: bool = False) -> None:
        """Show the log of the selected worker, or of its group, unless it is shown already and not wanted `anew`."""
        self.say("")
        if self.state.together and not anew and self.main.log_view.shows == self.state.log:
            return
        self.main.log_view.open(*self.state.log, past=self.state.looked is not None)
        self.follow_chosen()

    def follow_chosen(self) -> None:
        """Have the engine send the lines of the selected worker, or of all in its group."""
        name, ranks = self.state.log
        slots = tuple(ranks) or ((name,) if name else ())
        self._answered(lambda: self.engine.follow(*slots, tail=LOG_TAIL, telling=True))

    def on_log_behind(self) -> None:
        """Have the newest lines sent again."""
        self.follow_chosen()

    def _chosen(self) -> str:
        """The slot that a key acts on; empty, with a message, where no slot is in use, or a folded node is selected."""
        slot = self.state.chosen
        if (node := self.state.folded_node) and not self.covered:
            self.say(f"{node} is folded: {now('z')} or {now('enter')} unfolds it, {now('space')} marks its workers.")
            return ""
        if not slot:
            self.say(NO_MATCH if self.state.arrangement.filter else NO_GPU)
        return slot

    def _workers_for(self, key: str) -> list[Worker]:
        """The workers that `key` is meant for, and can do something with; without one, a message says why."""
        found, why = [], ""
        for slot in self.meant or (self._chosen(),):
            worker = self.state.snapshot.worker(slot)
            reason = refusals.why_not(key, slot, worker, queued=self.state.queue is not None) if slot else ""
            if worker is not None and not reason:
                found.append(worker)
            why = why or reason
        if why and not found:
            self.say(why)
        return found

    def action_restart(self) -> None:
        """Restart the selected worker, or the marked ones."""
        if workers := self._workers_for("r"):
            self._act(Action.RESTART, *workers)

    def action_restart_failed(self) -> None:
        """Restart all that failed or are stuck."""
        workers = self.state.snapshot.workers
        wrong = [worker for worker in workers if worker.state is WorkerState.FAILED or worker.stuck]
        if wrong:
            hidden = sum(worker.slot not in self.state.slots for worker in wrong)
            are = "is" if hidden == 1 else "are"
            names = f"{len(wrong)} workers have failed or are stuck; {hidden} of them {are} hidden by the filter. "
            self._act(Action.RESTART, *wrong, first=names if hidden else "")
        else:
            self.say(f"{now('R')}: no worker has failed or is stuck.")

    def action_stop(self) -> None:
        """Stop the selected worker, or the marked ones."""
        if workers := self._workers_for("x"):
            self._act(Action.STOP, *workers)

    def _with_groups(self, workers: Sequence[Worker]) -> Sequence[Worker]:
        """The workers, and the ranks that start and end with them: the engine acts on whole groups."""
        meant = {worker.group.id for worker in workers if worker.group is not None}
        if not meant:
            return workers
        slots = {worker.slot for worker in workers}
        ranks = (one for one in self.state.snapshot.workers if one.group is not None and one.group.id in meant)
        return [*workers, *(one for one in ranks if one.slot not in slots)]

    def _act(self, action: Action, *workers: Worker, first: str = "") -> None:
        """Restart or stop workers, after a confirmation where much running would be lost, or with something to say `first`."""
        all_meant = self._with_groups(workers)
        question = refusals.question(action.value.capitalize(), all_meant) if self.confirm else ""
        if first and self.confirm:
            question = first + (question or f"{action.value.capitalize()} all {len(workers)}?")
        self._request(action, [worker.slot for worker in workers], question)

    def _request(self, action: Action, slots: Sequence[str], question: str) -> None:
        """Do something to workers; what is meant is what runs there now, once `question`, if any, is answered."""
        seen = self._seen(slots, attempt=bool(question) or action is Action.KILL)

        async def asked() -> None:
            from gmg_tui.ui.screens.confirm import ConfirmScreen

            if await self._show(ConfirmScreen(question)):
                await self.engine.act(action, *slots, seen=seen)

        if question:
            self._open(asked)
        else:
            self._ask(lambda: self.engine.act(action, *slots, seen=seen))

    def _seen(self, slots: Iterable[str], *, attempt: bool = False) -> dict[str, Seen]:
        """What the screen shows on slots: the jobs, and with `attempt` also the attempts, where no other is meant."""
        found = {slot: self.state.snapshot.worker(slot) for slot in slots}
        return {
            slot: Seen(worker.job, worker.attempt if attempt else None)
            for slot, worker in found.items()
            if worker is not None
        }

    def action_kill(self) -> None:
        """Kill the selected worker or the marked ones, after a confirmation unless they are being stopped already."""
        if workers := self._workers_for("X"):
            sure = all(worker.state is WorkerState.STOPPING for worker in workers)
            question = refusals.kill_question(self._with_groups(workers))
            self._request(Action.KILL, [worker.slot for worker in workers], "" if sure else question)

    def action_edit(self, attempt: int = 0) -> None:
        """Edit arguments and environment, then restart with them; begin with those of an earlier `attempt`, if any."""
        if self.state.silent_s:
            self.say(
                f"{now('e')}: the engine has been silent for {units.span(self.state.silent_s)}; {now('d')} detaches."
            )
        elif workers := self._workers_for("e"):
            self._open(lambda: self._edit([worker.slot for worker in workers], attempt))

    def on_use_arguments(self, message: UseArguments) -> None:
        """Edit the selected worker or the marked ones, beginning with arguments that were tried."""
        start = Settings(message.args_given, message.env_given)
        if workers := self._workers_for("e"):
            self._open(lambda: self._edit([worker.slot for worker in workers], 0, start))

    async def _edit(self, meant: Sequence[str], attempt: int, start: Settings | None = None) -> None:
        """Open the edit dialog, which begins with the settings of an `attempt` or with `start`, if any."""
        from gmg_tui.ui.screens.edit.opening import edit_screen

        seen, state = self._seen(self.state.present), self.state
        slot = state.chosen if state.chosen in meant else meant[0]
        scope = Scope.MARKED if state.marked and not self.covered else state.edit_scope
        try:
            async with asyncio.timeout(OPENING_S):
                screen = await edit_screen(self.engine, state, slot, seen, scope=scope, attempt=attempt, start=start)
        except TimeoutError as error:
            raise GmgError(f"{now('e')}: the engine does not answer; what was typed meanwhile is forgotten.") from error
        await self._show(screen)

    # The screen

    def action_view(self) -> None:
        """Switch between tiles and table."""
        tiles = self.main.grid.plan.tiles
        self.state.view = View.TABLE if tiles else View.TILES
        self.main.lay_out()
        if self.main.grid.plan.tiles == tiles:
            self.say(f"{now('t')}: no room for tiles; enlarge the terminal.")
        self.main.grid.draw()
        self.remember()

    def action_redraw(self) -> None:
        """Redraw the whole screen, after something else wrote to the terminal."""
        self.forget_terminal()
        self.screen.refresh(layout=True)

    def action_suspend(self) -> None:
        """Stop the interface until the shell continues it; the workers keep running."""
        if suspension.shell_waits():
            suspension.suspend()
        else:
            self.say(f"{now('ctrl+z')}: no shell would bring it back; {now('d')} detaches, gmg-tui attach returns.")

    # Leaving

    def action_detach(self) -> None:
        """Leave; the workers go on."""
        self.finish("detached")

    def action_quit_session(self) -> None:
        """Leave, with or without the workers."""
        if self.state.snapshot.ended:
            self.finish("ended")
        else:
            self._open(self._quit)

    async def _quit(self) -> None:
        from gmg_tui.ui.screens.quit import QuitScreen

        spec = self.state.session.spec
        queue = self.state.queue
        live = sum(1 for worker in self.state.snapshot.workers if not worker.state.ended)
        answer = await self._show(
            QuitScreen(
                live,
                spec.name,
                stopping=self.state.stopping,
                sigint_wait_s=spec.sigint_wait_s,
                queue=queue,
                tuning=self.state.snapshot.tuning is not None,
            )
        )
        if answer == "leave":
            self.finish("detached")
        elif answer is not None:
            self.state.after = None
            await self._stop_all(kill=answer == "kill")

    async def _stop_all(self, *, kill: bool = False) -> None:
        """End the workers, and the interface once they have ended."""
        before, self.state.stopping = self.state.stopping, True
        self.draw()
        try:
            await self.engine.end(kill=kill)
        except GmgError:
            self.state.stopping, self.state.after = before, None  # what comes later ends the session, and no more
            raise
        if self.state.snapshot.ended:
            self.finish("stopped")

    def on_replace(self, message: Replace) -> None:
        """Make place for what is to follow."""
        self.state.after = message.after
        if self.state.snapshot.ended:
            self.finish("ended")
        else:
            self._ask(self._stop_all)

    def wear(self, name: str) -> None:
        """Draw in the colours of the theme called `name`."""
        self.theme = themes.textual_name(name, no_color=self.no_color)
        self.theme_chosen = name
        self.remember()
