"""Restarts, stops and kills workers, and ends the session: finds the workers, asks first, and sends the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.screen import ModalScreen

from gmg_tui.model import Settings, Worker, WorkerState, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS
from gmg_tui.session.protocol import Action, Seen
from gmg_tui.ui import worker_text
from gmg_tui.ui.view import View

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

SHORT_S: Final = 60.0
"""Up to so many seconds of an attempt may be lost without a question."""


def with_groups(view: View, workers: Sequence[Worker]) -> Sequence[Worker]:
    """The workers, and the ranks that start and end with them: the engine acts on whole groups."""
    ids = {worker.group.id for worker in workers if worker.group is not None}
    slots = {worker.slot for worker in workers}
    ranks = (rank for rank in view.snapshot.workers if rank.group is not None and rank.group.id in ids)
    return [*workers, *(rank for rank in ranks if rank.slot not in slots)]


def seen(view: View, slots: Iterable[str], *, attempt: bool = False) -> dict[str, Seen]:
    """The jobs that the screen shows on `slots`, and with `attempt` also the attempts, where no other is meant."""
    workers = (view.worker_on(slot) for slot in slots)
    return {
        worker.slot: Seen(worker.job, worker.attempt if attempt else None) for worker in workers if worker is not None
    }


def lost_s(worker: Worker, now: float) -> float:
    """Returns the running seconds that end with the worker's process; 0 if too few to ask."""
    running = worker.state.live and worker.state is not WorkerState.STOPPING
    ran_s = worker.attempt_s(now) or 0.0
    return ran_s if running and ran_s > SHORT_S else 0.0


def question(verb: str, workers: Sequence[Worker], now: float) -> str:
    """Returns the question before `verb` (`Restart`, `Stop`) is applied to `workers` at `now`; empty if little is lost.

    Ranks are given with all others of their groups.
    """
    longest = max(workers, key=lambda worker: lost_s(worker, now), default=None)
    if longest is None or not (ran_s := lost_s(longest, now)):
        return ""
    which = "It" if len(workers) == 1 else longest.slot
    text = f"{verb} {_named(workers)}? {which} has been running for {units.span(ran_s)}."
    if (saved := longest.newest.checkpoint) is not None:
        text += f" It saved {Path(saved.path).name} {units.span(max(0.0, now - saved.saved))} ago."
    return text


def kill_question(workers: Sequence[Worker]) -> str:
    """Returns the question before workers are killed; ranks are given with all others of their groups."""
    whose = "its" if len(workers) == 1 else "their"
    return f"Kill {_named(workers)} now? Genesis will not save {whose} compiled kernels."


def _named(workers: Sequence[Worker]) -> str:
    if text := worker_text.together_text(workers):
        return text
    if len(workers) > 1:
        return f"{len(workers)} workers"
    worker = workers[0]
    return worker.slot if worker.job is None else f"job {worker.job} ({worker.job_name}) on {worker.slot}"


class Control:
    """Applies actions to the selected worker or the marked ones, after a question where much running would be lost."""

    def __init__(self, app: GmgApp) -> None:
        self._app = app

    @property
    def _marks(self) -> bool:
        """True if actions apply to the marked workers: where these are not in sight, they apply to the selected one."""
        app = self._app
        return not app.view.maximized and all(
            screen is app.main or isinstance(screen, ModalScreen) for screen in app.screen_stack
        )

    def selected(self) -> str:
        """The slot that an action on one worker applies to; empty, with a message, where there is none."""
        view = self._app.view
        if self._marks and (node := view.folded_node):
            self._app.say(f"{node} is folded: unfold it, or mark its workers.")
            return ""
        if not view.selected:
            self._app.say(view.why_empty)
        return view.selected

    def _slots(self) -> list[str]:
        """The marked slots, else the selected one; without one, a message says why."""
        view = self._app.view
        marked = [slot for slot in view.slots if slot in view.marked] if self._marks else []
        return marked or list(filter(None, [self.selected()]))

    def _targets(self, action: Action | None) -> list[Worker]:
        """The workers that `action` (None: edit) applies to; without one, a message says why."""
        view, slots = self._app.view, self._slots()
        workers = [worker for slot in slots if (worker := view.worker_on(slot)) is not None]
        if view.queue is not None:
            workers = [worker for worker in workers if worker.job is not None]
        # What has ended can neither be stopped nor killed, and the arguments of a sweep's job are the sweep's.
        if action in {Action.STOP, Action.KILL} or (action is None and view.queue is not None):
            workers = [worker for worker in workers if not worker.state.ended]
        if slots and not workers:
            self._app.say(f"Nothing runs on {slots[0] if len(slots) == 1 else 'the marked slots'}.")
        return workers

    def act(self, action: Action) -> None:
        """Restart, stop or kill the selected worker or the marked ones."""
        workers = self._targets(action)
        if action is Action.KILL:
            every = with_groups(self._app.view, workers)
            stopping = all(worker.state is WorkerState.STOPPING for worker in every)
            text = "" if stopping else kill_question(every)
        else:
            text = self._question(action, workers)
        self._request(action, workers, text)

    def restart_failed(self) -> None:
        """Restart all that failed or are stuck, also those that the filter hides."""
        view = self._app.view
        wrong = [worker for worker in view.snapshot.workers if worker.state is WorkerState.FAILED or worker.stuck]
        if not wrong:
            self._app.say("No worker has failed or is stuck.")
            return
        self._request(Action.RESTART, wrong, self._question(Action.RESTART, wrong))

    def _question(self, action: Action, workers: Sequence[Worker]) -> str:
        view = self._app.view
        return question(action.value.capitalize(), with_groups(view, workers), view.snapshot.time)

    def _request(self, action: Action, workers: Sequence[Worker], text: str) -> None:
        """Do something to the workers that run now, once the question `text`, if any, is answered with yes."""
        if not workers:
            return
        app, slots = self._app, [worker.slot for worker in workers]
        expected = seen(app.view, slots, attempt=bool(text) or action is Action.KILL)
        act = partial(app.request, partial(app.engine.act, action, *slots, seen=expected))
        if text:
            app.ask(text, act)
        else:
            act()

    def use_gpu(self, *, used: bool) -> None:
        """Let jobs start on the GPUs of the selected slot or the marked ones, or no more."""
        if slots := self._slots():
            self._app.request(partial(self._use_gpu, slots, used=used))

    async def _use_gpu(self, slots: Sequence[str], *, used: bool) -> None:
        for slot in slots:
            await self._app.engine.use_slot(slot, used=used)
        self._app.say(f"{'Jobs start again' if used else 'No more jobs start'} on {', '.join(slots)}.")

    async def edit(self, start: Settings | None = None) -> None:
        """Open the edit dialog, which begins with other settings than the present ones, if any are given."""
        from gmg_tui.ui.edit import EditScreen

        app, view = self._app, self._app.view
        if slots := [worker.slot for worker in self._targets(None)]:
            slot = view.selected if view.selected in slots else slots[0]
            marked = slots if view.marked and self._marks else ()
            question = self._edit_question
            await app.push_screen(EditScreen(app.engine, view, slot, marked=marked, start=start, question=question))

    def _edit_question(self, slots: Sequence[str]) -> str:
        """Returns the question before workers restart with other settings; empty if little is lost."""
        workers = [worker for slot in slots if (worker := self._app.view.worker_on(slot)) is not None]
        return self._question(Action.RESTART, workers)

    def open_log(self, slot: str, job: int | None) -> None:
        """Open all that the worker on `slot` has printed in the pager; in a queue that of the job with this number."""
        app, spec = self._app, self._app.view.session.spec
        name, pattern = (slot, f"{slot}.log") if app.view.queue is None else (str(job), f"{job or 0:04}-*.log")
        # Of a group the shortest name is that of rank 0.
        path = min(Path(spec.folder, LOGS).glob(pattern), key=lambda file: len(file.name), default=None)
        if path is None:
            app.say("There is no log: nothing has been written.")
        elif app.web:
            app.say(f"`gmg-tui logs {spec.name} {name}` prints the log.")
        else:
            app.request(partial(app.show_file, path))

    # Leaving

    def quit(self) -> None:
        """Leave; ask first what to do with the workers, where this screen may decide that."""
        from gmg_tui.ui.dialogs import QuitScreen

        app, view = self._app, self._app.view
        if view.over or (view.readonly and not view.snapshot.ended):
            app.action_detach()
        elif view.snapshot.ended:
            app.finish("ended")
        else:
            app.push_screen(QuitScreen(view.session, view.snapshot, stopping=view.stopping), self._leave)

    def _leave(self, answer: str | None) -> None:
        if answer == "leave":
            self._app.finish("detached")
        elif answer is not None:
            self._app.request(partial(self._stop_all, kill=answer == "kill"))

    async def _stop_all(self, *, kill: bool = False) -> None:
        """End the workers, and the interface once they have ended."""
        app, view = self._app, self._app.view
        before, view.stopping = view.stopping, True
        app.refresh_view()
        try:
            await app.engine.end(kill=kill)
        except GmgError:
            view.stopping = before
            raise
        if view.snapshot.ended:
            app.finish("stopped")
