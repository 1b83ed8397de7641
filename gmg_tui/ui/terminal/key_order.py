"""Keys of a widget that has the focus, handled in the order in which they are typed."""

from __future__ import annotations

from textual import events, on
from textual.widget import Widget


class KeyOrder(Widget):
    """Mixin of a widget that has done with a key before the next one is looked at; to be named after the first base.

    Textual posts a key to the widget that has the focus when the key arrives; from there it goes up to the app, which
    runs its action. Keys that follow at once, as they do when a slow line delivers several together, would reach that
    widget too although the first has moved the focus, or would be inserted before a backspace is handled.
    """

    async def obey(self, event: events.Key | events.Paste) -> None:
        """Handle an event as if it had come by way of the queues: called by the app, for the widget with the focus."""
        if isinstance(event, events.Paste) or not await self._run_binding(event.key, priority=True):
            await self.on_event(event)

    @on(events.Paste)
    def _keep_paste(self, event: events.Paste) -> None:
        """Pass on to no other widget what was pasted into this one."""
        event.stop()

    async def _on_key(self, event: events.Key) -> None:
        """Run the action of a key that the widget itself does not take as text."""
        event.stop()
        event.prevent_default()
        await self._run_binding(event.key)

    async def _run_binding(self, key: str, *, priority: bool = False) -> bool:
        """Run the first action that is bound to `key` here, above, or in the app; whether there was one."""
        return await self.app._check_bindings(key, priority)  # noqa: SLF001 - nothing public looks one up
