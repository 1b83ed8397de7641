"""What keys, clicks and the palette do on a screen that may not do everything."""

from __future__ import annotations

from collections.abc import Mapping

from textual.actions import ActionParseResult
from textual.dom import DOMNode
from textual.screen import Screen

from gmg_tui.ui.keys import Key
from gmg_tui.ui.permissions import Permissions
from gmg_tui.ui.screen_actions import ScreenActions
from gmg_tui.ui.screens.page_base import PageScreen


class PermittedActions(ScreenActions, inherit_bindings=False):
    """An app that refuses what it may not do; the engine refuses it too."""

    permissions: Permissions
    _refusal = ""
    """Why the last key did nothing, as long as that is shown."""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key, a click or a command of the palette says, or say why not."""
        why = self.permissions.why_not(action if isinstance(action, str) else action[1])
        if not why:
            if self._refusal and self._refusal == self.state.message:
                self.say("")
            self._refusal = ""
            return await super().run_action(action, default_namespace, namespaces)
        self._refusal = why
        if isinstance(self.screen, PageScreen):
            self.screen.tell(why)
        else:
            self.say(why)
        return True

    def offers(self, screen: Screen[object], key: Key) -> bool:
        """Whether `key` of the main table does something on `screen`."""
        return not self.permissions.why_not(key.action) and super().offers(screen, key)

    async def action_tuning(self) -> None:
        """Show the tuning; in a plain run, start one, if that is allowed."""
        if self.permissions.looks and self.state.snapshot.tuning is None:
            self.say(self.permissions.why_not("edit"))
        else:
            await super().action_tuning()

    def action_detach(self) -> None:
        """Leave; the workers go on, where there are any."""
        if self.state.over:
            self.finish("looked")
        else:
            self.finish("ended" if self.state.parted else "detached")

    def action_quit_session(self) -> None:
        """Leave; a screen that only looks leaves the workers alone without a question."""
        if self.state.looked is not None and not self.state.over:
            self.leave_past()  # what is asked is of the present
        if self.state.over:
            self.finish("looked")
        elif self.permissions.readonly and not self.state.snapshot.ended:
            self.action_detach()
        else:
            super().action_quit_session()
