"""Keys of a text field, obeyed in the order in which they are typed."""

from __future__ import annotations

from textual import events
from textual.widget import Widget


class InOrder(Widget):
    """A field that acts on a key bound in it before the next key is looked at. A field names it after its first base.

    Textual gives a bound key up to the app, which sends it back as an action; letters that follow at once, as they do
    when a slow line delivers several keys together, would be written before a backspace is obeyed.
    """

    async def _on_key(self, event: events.Key) -> None:
        bindings = self._bindings.key_to_bindings.get(event.key)
        if bindings:
            event.stop()
            event.prevent_default()
            await self.app.run_action(bindings[0].action, self)
