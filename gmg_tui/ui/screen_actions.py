"""What the keys do that open a screen; each screen's module is imported when it is opened first."""

from __future__ import annotations

import asyncio

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import Settings
from gmg_tui.ui.actions import OPENING_S
from gmg_tui.ui.keys import KEYS, now
from gmg_tui.ui.messages import Replace
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.time_actions import TimeActions


class ScreenActions(TimeActions, inherit_bindings=False):
    """An app whose keys open screens over the main one."""

    async def action_details(self) -> None:
        """Show the selected worker's details; a folded node is unfolded."""
        if self.state.folded_node and not self.covered:
            self.action_fold_node()
            return
        from gmg_tui.ui.screens.details.screen import DetailsScreen

        if slot := self._chosen():
            await self.push_screen(DetailsScreen(self.state, self.engine, slot, self.appearance))

    async def action_processes(self) -> None:
        """Show the processes on the selected worker's GPU."""
        from gmg_tui.ui.screens.processes.screen import ProcessesScreen

        if slot := self._chosen():
            await self.push_screen(ProcessesScreen(self.engine, slot, self.appearance))

    async def action_stacks(self) -> None:
        """Show what the selected worker does, or each rank of its group."""
        from gmg_tui.ui.screens.stacks.screen import StacksScreen

        if slot := self._chosen():
            groups = self.state.snapshot.groups
            slots = next((group.slots for group in groups if slot in group.slots), (slot,))
            await self.push_screen(StacksScreen(self.engine, slot, slots, self.appearance))

    async def action_queue(self) -> None:
        """Show the queue of a sweep."""
        if self.state.queue is None:
            self.say(f"{now('Q')}: this session has no queue; only gmg-tui sweep has one.")
            return
        from gmg_tui.ui.screens.queue.screen import QueueScreen

        self.say("")
        await self.push_screen(QueueScreen(self.state, self.engine, self.appearance))

    async def action_tuning(self) -> None:
        """Show the tuning; in a plain run, start that of the number that matters in its place."""
        if self.state.queue is not None and self.state.snapshot.tuning is None:
            self.say(f"{now('T')}: the jobs of a sweep cannot be tuned; gmg-tui tune starts a tuning.")
            return
        if self.state.snapshot.tuning is None:
            if self._chosen():
                self._open(self._tune)
            return
        from gmg_tui.ui.screens.tune.screen import TuneScreen

        self.say("")
        await self.push_screen(TuneScreen(self.state, self.appearance))

    async def _tune(self) -> None:
        from gmg_tui.ui.screens.confirm import ConfirmScreen
        from gmg_tui.ui.screens.edit.numbers import tunable

        try:
            async with asyncio.timeout(OPENING_S):
                details = await self.engine.details(self.state.chosen)
        except TimeoutError as error:
            raise GmgError(f"{now('T')}: the engine does not answer; what was typed meanwhile is forgotten.") from error
        number = tunable(Settings(details.args, details.extra_env), self.state.edited)
        if number is None:
            self.say(
                f"{now('T')}: there is no number of environments among the arguments, and no whole number was edited."
            )
            return
        live = sum(worker.state.live for worker in self.state.snapshot.workers)
        are = "is" if live == 1 else "are"
        stops = f"{units.count(live, 'running worker')} {are} stopped first. " if live else ""
        question = f"Look for the best {number.variable} ({number.value:,} now) on all slots? {stops}"
        if await self._show(ConfirmScreen(f"{question}Its answer can be run from there.")):
            self.post_message(Replace(number))

    async def action_tried(self) -> None:
        """Show all that was tried."""
        from gmg_tui.ui.screens.tried.screen import TriedScreen

        self.say("")
        await self.push_screen(TriedScreen(self.state, self.engine, self.appearance))

    def action_command_palette(self) -> None:
        """Show the palette."""
        from gmg_tui.ui.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    async def action_help(self) -> None:
        """Show the help, from the keys of the screen that it is asked on."""
        from gmg_tui.ui.screens.help import HelpScreen

        await self.push_screen(HelpScreen(self.screen.KEYS if isinstance(self.screen, LiveScreen) else KEYS))
