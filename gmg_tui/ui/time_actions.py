"""What the keys do that look back on a session, and forward again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.protocol import Lines
from gmg_tui.source import Source
from gmg_tui.ui.actions import Actions
from gmg_tui.ui.keys import now
from gmg_tui.ui.permissions import Permissions
from gmg_tui.ui.screens.small import SmallScreen

if TYPE_CHECKING:
    from gmg_tui.past.record import Look
    from gmg_tui.past.source import PastSource

_TENTHS = 10


class TimeActions(Actions, inherit_bindings=False):
    """An app that shows the session's past in the place of its present.

    While it does, `engine` is what is kept of the session; `live` is its engine, or what is kept where that has ended.
    """

    live: Source
    permissions: Permissions
    past: PastSource | None = None
    """What is kept of the session, once it has been looked back on."""
    _steps: list[Callable[[PastSource], Awaitable[Look]]]
    """What is to be looked at: keys may come faster than a disk answers."""
    _stepping = False
    _to_past = False
    """Whether the past is being opened, and nobody has returned to the present meanwhile."""

    def action_time_step(self, steps: int) -> None:
        """Look at a moment that is kept, so many later or (negative) earlier."""
        self._go(lambda past: past.step(steps), forward=steps > 0)

    def action_time_move(self, share: float) -> None:
        """Look at a moment that is later or earlier by a share of the session's life."""
        self._go(lambda past: past.move(share), forward=share > 0)

    def action_time_jump(self, tenth: int) -> None:
        """Look at a tenth of the session's life."""
        self._go(lambda past: past.jump(tenth / _TENTHS), forward=False)

    def _go(self, step: Callable[[PastSource], Awaitable[Look]], *, forward: bool) -> None:
        if forward and self.state.looked is None:
            self.say(f"{now(']')}: this is the present; {now('[')} looks back.")
            return
        self._steps.append(step)
        if not self._stepping:
            self._stepping = True
            self._ask(self._follow_steps)

    async def _follow_steps(self) -> None:
        """Look at one moment after the other, and draw the last."""
        try:
            while self._steps:
                steps, self._steps = self._steps, []
                past = await self._opened()
                looked = past.look
                for step in steps:
                    looked = await step(past)
                if self.state.looked is not None or (self._to_past and self._uncovered):
                    self._show_past(past, looked)
        finally:
            self._stepping, self._steps, self._to_past = False, [], False

    @property
    def _uncovered(self) -> bool:
        """Whether no screen was opened over the present meanwhile, which is what it shows or asks about."""
        return bool(self.screen_stack) and (
            isinstance(self.screen, SmallScreen) or self._works_on(self.screen, "time_step")
        )

    async def _opened(self) -> PastSource:
        """What is kept of the session, up to now where it still runs. Raises `GmgError` when it cannot be read."""
        if self.state.looked is not None and self.past is not None:
            return self.past
        self._to_past = True
        if self.past is None:
            from gmg_tui.past.source import PastSource

            session = self.state.session
            try:
                self.past = await PastSource.open(Path(session.spec.folder), session)
            except GmgError as error:
                raise GmgError(f"{now('[')}: {error}") from error
            self.state.know(self.past.welcome.session.slots)
            self.run_worker(self._listen_back(self.past), name="listen to the past")
        await self.past.enter()
        return self.past

    async def _listen_back(self, past: PastSource) -> None:
        async for event in past.events():
            if isinstance(event, Lines) and self.engine is past:
                self.main.log_view.take(event)

    def _show_past(self, past: PastSource, looked: Look) -> None:
        """Draw a moment."""
        self.state.look(looked)
        self.engine = past
        if self.state.parted:
            self.state.over = True
        self.permissions = self.permissions._replace(past=self.why_past(past))
        self.open_log(anew=True)
        self.say("")
        self.draw()

    def end_present(self) -> None:
        """Have no present to return to: the engine has exited, and what is kept is all that can be asked."""
        if self.state.looked is not None and self.past is not None:
            self.state.over = True
            self.permissions = self.permissions._replace(past=self.why_past(self.past))

    def why_past(self, past: PastSource) -> str:
        """Why nothing can be changed in the past, and how one goes on."""
        back = f"; {now('esc')} returns to the present"
        return f"The past cannot be changed{sessions.going_on(past.welcome.session) if self.state.over else back}."

    def action_leave(self) -> None:
        """End what is to be ended on the main screen; else return to the present, or stay there."""
        if super()._to_leave:
            super().action_leave()
        elif self.state.looked is None:
            self._to_past, self._steps = False, []
        elif self.state.over:
            self._go(lambda past: past.jump(1.0), forward=True)
        else:
            self.leave_past()

    @property
    def _to_leave(self) -> bool:
        looked = self.state.looked
        return super()._to_leave or (looked is not None and not (self.state.over and looked.at_end))

    def leave_past(self) -> None:
        """Draw the present again."""
        self._to_past, self._steps = False, []
        self.state.look(None)
        self.engine = self.live
        self.permissions = self.permissions._replace(past="")
        self.open_log(anew=True)
        self.draw()

    async def close_past(self) -> None:
        """Close what is kept of the session, if it was opened beside its engine."""
        if self.past is not None and self.past is not self.live:
            await self.past.close()
