"""The part of the application that all screens share: choosing workers, confirming, sending requests, and leaving."""

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from textual import work
from textual.app import App
from textual.reactive import var
from textual.screen import ModalScreen
from textual.widget import AwaitMount

from gmg_tui.model import Settings, Snapshot, Worker, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS, worker_log
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Action, Seen
from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import confirm_dialog, question, quit_dialog
from gmg_tui.ui.drawing import safe
from gmg_tui.ui.outcome import Outcome
from gmg_tui.ui.terminal import TerminalDriver
from gmg_tui.ui.view import View

MESSAGE_TIMEOUT_S: Final = 8.0


class SessionApp(App[Outcome], inherit_bindings=False):
    """The part of the application that screens use: the engine, the view, and actions on workers.

    Actions apply to the selected worker or the marked ones, and ask for confirmation if much work would be lost. With
    `web`, the app is shown in a browser instead of a terminal.
    """

    terminal: TerminalDriver | None = None
    """The terminal's driver; None in a browser or in tests."""
    snapshot: var[Snapshot] = var(Snapshot(0.0, 0.0, ()), init=False, always_update=True)
    """The snapshot on the screen, the same as in `view`; widgets and pages watch it."""

    def __init__(self, engine: Source, *, web: bool = False) -> None:
        # With NO_COLOR, Textual 8.2.8 sends greys unless `ansi_color` is set (`app.py`, `Monochrome`).
        super().__init__(
            driver_class=None if web else TerminalDriver, ansi_color=True if "NO_COLOR" in os.environ else None
        )
        self.engine = engine
        self.view = View(engine.welcome, already_ended=engine.ended, loss=engine.loss)
        self._newest = engine.welcome.snapshot
        """The engine's newest snapshot; `view` gets it only when it is drawn, since keys act on what the user sees."""
        self.set_reactive(SessionApp.snapshot, engine.welcome.snapshot)

    # Drawing

    def publish(self) -> None:
        """Draws the newest snapshot and the current view."""
        if not self.screen_stack:  # the app is exiting
            return
        if self._newest is not self.view.snapshot:
            self.view.apply(self._newest)
        with self.batch_update():
            self.snapshot = self.view.snapshot
        for screen in self.screen_stack[1:-1]:  # Textual 8.2.8 draws screens below a dialog from its cache
            if isinstance(screen, ModalScreen):
                screen.refresh()

    def refresh_view(self) -> None:
        """Redraws the screen and the keys after the view has changed."""
        self.publish()
        self.refresh_bindings()

    def say(self, message: str) -> None:
        """Shows a message for `MESSAGE_TIMEOUT_S`, in place of any other."""
        self.clear_notifications()
        self.notify(safe(message), markup=False, timeout=MESSAGE_TIMEOUT_S)

    def write_to_terminal(self, text: str) -> None:
        """Writes control sequences directly to the terminal, if there is one."""
        if text and self.terminal is not None:
            self.terminal.write(text)
            self.terminal.flush()

    # Requests

    @work(group="requests")
    async def request(self, send: Callable[[], Awaitable[object]]) -> None:
        """Sends a request to the engine in the background, and shows any error."""
        try:
            await send()
        except GmgError as error:
            self.say(str(error))

    def ask(self, question: str, on_yes: Callable[[], object]) -> AwaitMount:
        """Asks a question, and calls `on_yes` if the answer is yes. Await it to block keys until the dialog is up."""

        def handle_answer(yes: bool | None) -> None:
            if yes:
                on_yes()

        return self.push_screen(confirm_dialog(question), handle_answer)

    def unavailable_reason(self, action: str) -> str:
        """Returns the reason why an action is unavailable in this session; empty if it is available."""
        if action in {"queue", "use_gpu"} and self.view.queue is None:
            return "only sweeps and tuning runs have a queue"
        if action in keys.CHANGING_ACTIONS and (self.view.readonly or self.view.already_ended):
            return "the session has ended" if self.view.already_ended else "this screen is read-only"
        return ""

    # Workers

    def select(self, slot: str, *, maximize: bool = False) -> None:
        """Selects a worker, even one hidden by the filter; with `maximize`, also enlarges the pane."""
        self.view.maximized |= maximize
        self.view.choose(slot)
        self.refresh_view()

    def target_slots(self) -> list[str]:
        """Returns the slots that actions apply to: marked ones in view, else the selected one unless it is folded."""
        view = self.view
        if not view.maximized and all(isinstance(screen, ModalScreen) for screen in self.screen_stack[1:]):
            if marked := [slot for slot in view.slots if slot in view.marked]:
                return marked
            if view.folded_node:
                return []
        return list(filter(None, [view.selected]))

    def target_workers(self, action: Action | None) -> list[Worker]:
        """Returns the workers that `action` (None: edit) applies to."""
        workers = [worker for slot in self.target_slots() if (worker := self.view.worker_on(slot)) is not None]
        has_queue = self.view.queue is not None
        if has_queue:
            workers = [worker for worker in workers if worker.job is not None]
        # Ended workers cannot be stopped or killed, and ended jobs cannot be edited.
        if action in {Action.STOP, Action.KILL} or (action is None and has_queue):
            workers = [worker for worker in workers if not worker.state.ended]
        return workers

    def say_no_target(self) -> None:
        """Shows the reason why an action applies to no worker."""
        view, slots = self.view, self.target_slots()
        if slots:
            self.say(f"Nothing is running on {slots[0] if len(slots) == 1 else 'the marked slots'}.")
        else:
            node = view.folded_node
            self.say(f"{node} is folded: unfold it, or mark its workers." if node else view.empty_text)

    def action_act(self, name: str) -> None:
        """Restarts, stops or kills the selected or marked workers; `name` is the value of an `Action`."""
        action = Action(name)
        if workers := self.target_workers(action):
            self._confirm_and_act(action, workers)
        else:
            self.say_no_target()

    def action_restart_failed(self) -> None:
        """Restarts all workers that have failed or are stuck, even hidden ones."""
        view = self.view
        troubled = [worker for worker in view.snapshot.workers if worker.state is WorkerState.FAILED or worker.stuck]
        if troubled:
            self._confirm_and_act(Action.RESTART, troubled)
        else:
            self.say("No worker has failed or is stuck.")

    def _confirm_and_act(self, action: Action, workers: Sequence[Worker]) -> None:
        """Acts on the workers, with confirmation if needed; the engine refuses if a job or attempt has changed."""
        text = question(action, self.view, workers)
        must_match_attempt = bool(text) or action is Action.KILL
        seen = {worker.slot: Seen(worker.job, worker.attempt if must_match_attempt else None) for worker in workers}
        act = partial(self.request, partial(self.engine.act, action, *seen, seen=seen))
        if text:
            self.ask(text, act)
        else:
            act()

    def action_use_gpu(self, used: bool) -> None:
        """Enables or disables the GPUs of the selected or marked slots for jobs."""
        if slots := self.target_slots():
            self.request(partial(self._use_gpu, slots, used=used))
        else:
            self.say_no_target()

    async def _use_gpu(self, slots: Sequence[str], *, used: bool) -> None:
        for slot in slots:
            await self.engine.use_slot(slot, used=used)
        self.say(f"{'Jobs can start again' if used else 'No more jobs will start'} on {', '.join(slots)}.")

    async def action_edit(self, initial: Settings | None = None) -> None:
        """Opens the edit dialog with the settings `initial`; None for the current ones."""
        from gmg_tui.ui.edit import EditScreen

        slots = [worker.slot for worker in self.target_workers(None)]
        if slots:
            slots.sort(key=lambda slot: slot != self.view.selected)
            await self.push_screen(EditScreen(self.engine, self.view, slots, initial))
        else:
            self.say_no_target()

    def log_path(self, slot: str) -> Path | None:
        """Returns the path of the log of the worker on `slot`; None if the slot has no worker."""
        worker = self.view.worker_on(slot)
        return None if worker is None else Path(self.view.session.spec.folder, worker_log(worker))

    def job_log_path(self, number: int) -> Path | None:
        """Returns the path of a job's log (rank 0's for a group); None if the job has written nothing."""
        paths = Path(self.view.session.spec.folder, LOGS).glob(f"{number:04}-*.log")
        return min(paths, key=lambda path: len(path.name), default=None)

    def action_redraw(self) -> None:
        """Redraws the whole screen, as other output to the terminal may have garbled it."""
        if self.screen_stack:  # else the app is exiting
            self.screen.refresh(layout=True)

    # Leaving

    def finish(self, kind: str, reason: str = "") -> None:
        """Exits the app with an outcome of this kind; does not stop the engine."""
        self.exit(Outcome(kind, self.view.session, self._newest, reason))

    def action_detach(self) -> None:
        """Leaves the interface; the workers keep running."""
        self.finish("viewed" if self.view.already_ended else "ended" if self.view.disconnected else "detached")

    def action_quit_session(self) -> None:
        """Leaves the interface, after asking about running workers unless this screen is read-only."""
        view = self.view
        if view.already_ended or (view.readonly and not view.snapshot.ended):
            self.action_detach()
        elif view.snapshot.ended:
            self.finish("ended")
        else:
            self.push_screen(quit_dialog(self, view), self._handle_quit_answer)

    def _handle_quit_answer(self, answer: str | None) -> None:
        if answer == "leave":
            self.finish("detached")
        elif answer is not None:
            self.request(partial(self._stop_all, kill=answer == "kill"))

    async def _stop_all(self, *, kill: bool = False) -> None:
        """Stops or kills all workers, then leaves the interface."""
        was_stopping, self.view.stopping = self.view.stopping, True
        self.refresh_view()
        try:
            await self.engine.end(kill=kill)
        except GmgError:
            self.view.stopping = was_stopping
            raise
        if self.view.snapshot.ended:
            self.finish("stopped")
