"""Opens the edit dialog with what the engine knows of a worker."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.model import Settings
from gmg_tui.protocol import Seen
from gmg_tui.source import Source
from gmg_tui.ui.drawing.groups import together_text
from gmg_tui.ui.screens.edit.screen import EditResult, EditScreen
from gmg_tui.ui.screens.queries import slot_job
from gmg_tui.ui.state import Scope, UiState


async def edit_screen(
    engine: Source,
    state: UiState,
    slot: str,
    seen: Mapping[str, Seen],
    *,
    scope: Scope,
    attempt: int = 0,
    start: Settings | None = None,
) -> EditScreen:
    """The dialog for the worker on `slot`, which may be applied to others too.

    Args:
        engine: Is asked for the worker's settings, and told the edited ones.
        state: Has the other slots, and remembers what was edited.
        slot: Whose settings are shown.
        seen: What the screen shows on all slots, which is what is meant.
        scope: Which workers are meant at first.
        attempt: The attempt whose settings to begin with; 0 for the worker's present ones.
        start: Settings to begin with instead.

    Raises:
        GmgError: The engine does not answer, or there is no such worker.
    """
    details = await engine.details(slot)
    job = await slot_job(engine, state, slot)
    slots, queue = state.present, state.queue
    if queue is not None:
        slots = tuple(worker.slot for worker in state.snapshot.workers if worker.job and worker.state.live)

    async def send(result: EditResult) -> None:
        meant = {one: seen[one] for one in result.slots if one in seen}
        await engine.edit(result.slots, result.args, result.env, meant)
        state.edit_scope, state.edited = result.scope, result.edited or state.edited

    numbered = zip((one.number for one in details.attempts), details.settings, strict=False)
    return EditScreen(
        details,
        slots,
        send,
        marked=tuple(one for one in slots if one in state.marked),
        scope=scope,
        edited=state.edited,
        start=start or dict(numbered).get(attempt),
        job=job,
        count=queue.jobs if queue is not None else 0,
        group=together_text([worker]) if (worker := state.snapshot.worker(slot)) is not None else "",
    )
