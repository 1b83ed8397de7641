"""The tab with the verdict on a worker's speed, and its Python stacks."""

from collections.abc import Iterator
from typing import Final

from msgspec import structs
from textual import work

from gmg_tui.diagnosis.verdicts import judge
from gmg_tui.model import HotSpot, SpeedFacts, Stacks, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import Source
from gmg_tui.ui import keys
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.view import View

SPEED_POLL_INTERVAL_S: Final = 0.2
"""Seconds between an answer and the next query of speed facts, which takes nearly a second."""


class WhyTab(Facts):
    """The verdict on the selected worker's speed, with its figures, and its Python stacks once taken."""

    def __init__(self, view: View, engine: Source) -> None:
        super().__init__()
        self._view, self._engine = view, engine
        self._speed: SpeedFacts | None = None
        self._sampled: tuple[str, str | None, HotSpot | None] = "", None, None
        """The slot whose stacks were sampled, a message if no function was found, and the slowest function."""
        self._shown_stacks: tuple[str, float, list[Fact]] = "", 0.0, []
        """The slot whose stacks are shown, the Unix time they were taken, and the stacks."""

    def show_verdict(self, speed: SpeedFacts | None) -> None:
        """Shows the verdict on `speed` (None until the engine has answered) and the stacks."""
        self._speed = speed
        verdict = self._verdict_facts(speed) if speed is not None else [Fact("", "Waiting for the engine", "dim")]
        slot, taken, traces = self._shown_stacks
        if slot != self._view.selected:
            self.show(verdict)
            return
        age = units.span(max(0.0, self._view.snapshot.time - taken))
        traces = traces or [Fact("", "Waiting for the worker", "dim")]
        self.show([*verdict, Fact(f"Python stacks, {age} ago"), *traces])

    def _verdict_facts(self, speed: SpeedFacts) -> Iterator[Fact]:
        slot, trouble, spot = self._sampled
        here = slot == self._view.selected
        verdict = judge(structs.replace(speed, hot_spot=spot) if here else speed)
        yield Fact("verdict", verdict.text, "strong" if verdict.certain else "text")
        if verdict.advice:
            yield Fact("try", verdict.advice)
        yield from (Fact("" if number else "figures", text) for number, text in enumerate(verdict.evidence))
        key = keys.display_name(self.app, "details")
        if here and trouble is not None:
            yield Fact("stacks", trouble, "dim")
        elif speed.state.live and not self._view.readonly and not (here and spot):
            yield Fact("stacks", f"{key} samples 20 in two seconds to find the slowest function", "dim")

    @work(exclusive=True, group="stacks")
    async def take_stacks(self) -> None:
        """Samples the selected worker's stacks."""
        slot = self._view.selected
        self._sampled = slot, "sampling now", None
        self.show_verdict(self._speed)
        try:
            spot = await self._engine.hot_spot(slot)
            self._sampled = slot, None if spot is not None else "all are within the simulator's steps", spot
        except GmgError as error:
            self._sampled = slot, str(error), None
        self.show_verdict(self._speed)

    @work(exclusive=True, group="traces")
    async def show_stacks(self) -> None:
        """Takes and shows the stacks of the selected worker and its group, only once, as this interrupts them."""
        slot, time = self._view.selected, self._view.snapshot.time
        self._shown_stacks = slot, time, []
        self.show_verdict(self._speed)
        try:
            traces = [fact for taken in await self._engine.stacks(slot) for fact in _stack_facts(taken)]
        except GmgError as error:
            traces = [Fact("", str(error), "warn")]
        self._shown_stacks = slot, time, traces
        self.show_verdict(self._speed)


def _stack_facts(stacks: Stacks) -> Iterator[Fact]:
    """Yields the stacks of a worker's threads, the current one first."""
    yield Fact(stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}")
    threads = sorted(stacks.text.strip().split("\n\n"), key=lambda text: not text.startswith("Current thread"))
    if stacks.error:
        yield Fact("", stacks.error, "warn")
    elif stacks.text:
        yield Fact("", "\n\n".join(threads))
