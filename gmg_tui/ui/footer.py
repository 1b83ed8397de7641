"""The keys in the last row."""

from __future__ import annotations

from textual.widgets import Footer

Key = tuple[str, str, bool]
"""A key, what it does, and whether it can be pressed."""


class KeysFooter(Footer):
    """Textual's footer, without the command palette, composed again only when other keys are to be shown.

    Textual's own makes all its widgets again whenever bindings are refreshed, here after each move of the selection.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)
        self._composed: list[Key] | None = None

    async def recompose(self) -> None:
        """Compose the keys, if they have changed."""
        if not self.is_attached:  # its page has been closed meanwhile
            return
        bindings = self.screen.active_bindings.values()
        keys = [(each.binding.key, each.binding.description, each.enabled) for each in bindings if each.binding.show]
        if keys != self._composed:
            self._composed = keys
            await super().recompose()
