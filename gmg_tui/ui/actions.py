"""What the keys do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from textual import work
from textual.screen import Screen

from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action
from gmg_tui.ui import themes
from gmg_tui.ui.held_job import held_job
from gmg_tui.ui.keys import KEYS
from gmg_tui.ui.state import View

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

T = TypeVar("T")

LOG_TAIL = 1000
"""Lines of a worker's past that are asked for when it is chosen."""
_MAIN_ONLY = frozenset(
    {"move", "view", "follow", "search", "search_next", "log_page", "log_across", "details", "leave_search"}
)
"""Actions that make no sense while another screen covers the main one."""
_KEYED = frozenset(key.action.partition("(")[0] for key in KEYS)


class Actions:
    """The actions of `GmgApp`. What asks the engine runs as a task of its own, so that keys are answered meanwhile."""

    @property
    def _app(self) -> GmgApp:
        return cast("GmgApp", self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether `action` can be done now."""
        taken: frozenset[str] | None = getattr(self._app.screen, "TAKES", None)
        if taken is not None and action in _KEYED and action not in taken:
            return False  # a screen that shows no chosen worker must not act on it
        on_main = self._app.screen is self._app.main
        if action == "at_once":
            return on_main and self._app.main.focused is None
        return on_main or action not in _MAIN_ONLY

    async def action_at_once(self, action: str) -> None:
        """Do what a key of the main screen does before the next key is looked at."""
        await self._app.run_action(action)

    def say(self, message: str) -> None:
        """Tell why something could not be done; an empty message takes the last one away."""
        header = self._app.main.header
        if header.message != message:
            header.message = message
            self._app.draw()

    def _ask(self, request: Callable[[], Awaitable[object]]) -> None:
        self.say("")
        self._answered(request)

    def _open(self, opening: Callable[[], Awaitable[object]]) -> None:
        """Open a screen that asks something; keys that follow at once are meant for it."""
        self._app.keys.hold()
        self._ask(lambda: self._opened(opening))

    async def _opened(self, opening: Callable[[], Awaitable[object]]) -> None:
        try:
            await opening()
        finally:
            await self._app.keys.release()  # whatever kept the screen from being shown

    async def _show(self, screen: Screen[T]) -> T | None:
        """Put `screen` on top, give it the keys that have waited for it, and wait for its answer."""
        answered: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        await self._app.push_screen(screen, callback=answered.set_result)
        await self._app.keys.release()
        return await answered

    @work(group="requests")
    async def _answered(self, request: Callable[[], Awaitable[object]]) -> None:
        try:
            await request()
        except GmgError as error:
            self.say(str(error))

    # The chosen worker

    def action_move(self, direction: str) -> None:
        """Choose the neighbour."""
        if self._app.state.move(direction, self._app.main.board.plan.columns):
            self.chosen_changed()

    def chosen_changed(self) -> None:
        """Draw the choice and open the chosen worker's log."""
        self._app.main.board.draw()
        self.open_log()

    def open_log(self) -> None:
        """Show the log of the chosen worker."""
        self._app.main.log_view.open(self._app.state.chosen)
        self.say("")
        self.follow_chosen()

    def follow_chosen(self) -> None:
        """Have the engine send the lines of the chosen worker."""
        slots = (self._app.state.chosen,) if self._app.state.chosen else ()
        self._answered(lambda: self._app.engine.follow(*slots, tail=LOG_TAIL))

    def _chosen(self) -> str:
        """The slot that a key acts on; empty, and said so, where no slot is used."""
        slot = self._app.state.chosen
        if not slot:
            self.say("no slot is used: Q, then c, chooses cards")
        return slot

    def action_restart(self) -> None:
        """Restart the chosen worker."""
        if slot := self._chosen():
            self._act(Action.RESTART, slot)

    def action_restart_failed(self) -> None:
        """Restart all that failed or are stuck."""
        workers = self._app.state.snapshot.workers
        slots = [worker.slot for worker in workers if worker.state is WorkerState.FAILED or worker.stuck]
        if slots:
            self._act(Action.RESTART, *slots)
        else:
            self.say("R: no worker has failed or is stuck")

    def action_stop(self) -> None:
        """Stop the chosen worker."""
        if slot := self._chosen():
            self._act(Action.STOP, slot)

    def _act(self, action: Action, *slots: str) -> None:
        self._ask(lambda: self._app.engine.act(action, *slots))

    def action_kill(self) -> None:
        """Kill the chosen worker, after a question unless it is being stopped already."""
        if self._chosen():
            self._open(self._kill)

    async def _kill(self) -> None:
        from gmg_tui.ui.screens.confirm import ConfirmScreen

        app, slot = self._app, self._app.state.chosen
        worker = app.state.worker
        if worker is not None and worker.state is not WorkerState.STOPPING:
            question = f"Kill {slot} now? Genesis cannot save its compiled kernels then."
            if not await self._show(ConfirmScreen(question)):
                return
        await app.engine.act(Action.KILL, slot)

    def action_edit(self) -> None:
        """Edit arguments and environment, then restart with them."""
        if self._chosen():
            self._open(self._edit)

    async def _edit(self) -> None:
        from gmg_tui.ui.screens.edit import EditScreen

        app = self._app
        details = await app.engine.details(app.state.chosen)
        slots, queue, job = app.state.slots, app.state.queue, None
        if queue is not None:
            slots = tuple(worker.slot for worker in app.state.snapshot.workers if worker.job and worker.state.live)
            job = await held_job(app.engine, app.state, details.slot)
        result = await self._show(EditScreen(details, slots, job=job, count=queue.jobs if queue else 0))
        if result is not None:
            await app.engine.edit(result.slots, result.args, result.env)

    # What is shown

    async def action_details(self) -> None:
        """Show the chosen worker's details."""
        from gmg_tui.ui.screens.details import DetailsScreen

        app = self._app
        if slot := self._chosen():
            await app.push_screen(DetailsScreen(app.state, app.engine, slot, app.look))

    async def action_processes(self) -> None:
        """Show the processes on the chosen worker's card."""
        from gmg_tui.ui.screens.processes import ProcessesScreen

        app = self._app
        if slot := self._chosen():
            await app.push_screen(ProcessesScreen(app.engine, slot, app.look))

    async def action_queue(self) -> None:
        """Show the queue of a sweep."""
        app = self._app
        if app.state.queue is None:
            self.say("Q: there is no queue: this session runs one script on every slot (gmg-tui sweep has one)")
            return
        from gmg_tui.ui.screens.queue import QueueScreen

        self.say("")
        await app.push_screen(QueueScreen(app.state, app.engine, app.look))

    async def action_help(self) -> None:
        """Show the help."""
        from gmg_tui.ui.screens.help import HelpScreen

        await self._app.push_screen(HelpScreen())

    def action_view(self) -> None:
        """Switch between cards and table."""
        app = self._app
        cards = app.main.board.plan.cards
        app.state.view = View.TABLE if cards else View.CARDS
        app.main.lay_out()
        if app.main.board.plan.cards == cards:
            self.say("t: no room for cards; make the terminal larger")
        app.main.board.draw()

    def action_redraw(self) -> None:
        """Draw the whole screen again, after something else wrote on the terminal."""
        self._app.shadow.forget()
        self._app.screen.refresh(layout=True)

    # The log

    def action_follow(self) -> None:
        """Follow the log or hold it."""
        self._app.main.log_view.toggle_follow()

    def action_log_page(self, direction: str) -> None:
        """Scroll the log."""
        self._app.main.log_view.go(direction)

    def action_log_across(self, steps: int) -> None:
        """Move the log to the side."""
        self._app.main.log_view.across(steps)

    async def action_search(self) -> None:
        """Open the line that asks what to search for."""
        from gmg_tui.ui.search_bar import SearchBar

        main = self._app.main
        bar = SearchBar(main.log_view)
        await main.mount(bar, before=main.footer)
        main.set_focus(bar)

    def action_search_next(self, direction: str) -> None:
        """Go to the next place."""
        self._app.main.log_view.search_next(direction)

    def action_leave_search(self) -> None:
        """End the search."""
        if self._app.main.log_view.buffer.query:
            self._app.main.log_view.search("")

    # Leaving

    def action_detach(self) -> None:
        """Leave; the workers go on."""
        self._app.finish("detached")

    def action_quit_session(self) -> None:
        """Leave, with or without the workers."""
        if self._app.state.snapshot.ended:
            self._app.finish("ended")
        else:
            self._open(self._quit)

    async def _quit(self) -> None:
        from gmg_tui.ui.screens.quit import QuitScreen

        app = self._app
        spec = app.state.session.spec
        queue = app.state.queue
        live = sum(1 for worker in app.state.snapshot.workers if not worker.state.ended)
        answer = await self._show(
            QuitScreen(live, spec.name, stopping=app.left_by_stop, sigint_wait_s=spec.sigint_wait_s, queue=queue)
        )
        if answer == "leave":
            app.finish("detached")
        elif answer is not None:
            app.left_by_stop = app.main.header.stopping = True
            app.main.draw()
            await app.engine.end(kill=answer == "kill")
            if app.state.snapshot.ended:
                app.finish("stopped")

    # For the palette

    def _runner(self, action: str) -> Callable[[], Awaitable[bool]]:
        return lambda: self._app.run_action(action)

    def _wearer(self, name: str) -> Callable[[], None]:
        def wear() -> None:
            self._app.theme = themes.textual_name(name, no_color=self._app.no_color)

        return wear
