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
from gmg_tui.ui.view import Subject, View

SPEED_POLL_INTERVAL_S: Final = 0.2
"""Pause before the next query for speed facts, which take the engine nearly a second to gather."""


class WhyTab(Facts):
    """The verdict on the selected worker's speed, with figures, and the worker's Python stacks once taken."""

    def __init__(self, view: View, engine: Source) -> None:
        super().__init__()
        self._view, self._engine = view, engine
        self._speed: SpeedFacts | None = None
        self._sampled: tuple[Subject | None, str | None, HotSpot | None] = None, None, None
        """The sampled attempt, a message until its slowest function is known, and that function."""
        self._stacks: tuple[Subject | None, float, list[Fact]] = None, 0.0, []
        """The attempt whose stacks are shown, the Unix time of the request, and the stacks."""

    def show_verdict(self, speed: SpeedFacts | None) -> None:
        """Shows the verdict on `speed` (None until the engine has answered) and the stacks."""
        self._speed = speed
        verdict = self._verdict_facts(speed) if speed is not None else [Fact("", "Waiting for the engine", "dim")]
        subject, requested, stacks = self._stacks
        if subject != self._view.subject:
            self.show(verdict)
            return
        age = units.span(max(0.0, self._view.snapshot.time - requested))
        stacks = stacks or [Fact("", "Waiting for the worker", "dim")]
        self.show([*verdict, Fact(f"Python stacks, {age} ago"), *stacks])

    def _verdict_facts(self, speed: SpeedFacts) -> Iterator[Fact]:
        subject, message, spot = self._sampled
        is_sampled = subject == self._view.subject
        verdict = judge(structs.replace(speed, hot_spot=spot) if is_sampled else speed)
        yield Fact("verdict", verdict.text, "strong" if verdict.certain else "text")
        if verdict.advice:
            yield Fact("try", verdict.advice)
        yield from (Fact("" if number else "figures", text) for number, text in enumerate(verdict.evidence))
        key = keys.display_name(self.app, "details")
        if is_sampled and message is not None:
            yield Fact("stacks", message, "dim")
        elif speed.state.live and not self._view.readonly and not (is_sampled and spot):
            yield Fact("stacks", f"{key} takes 20 samples in two seconds to find the slowest function", "dim")

    @work(exclusive=True, group="stacks")
    async def sample_stacks(self) -> None:
        """Samples the selected worker's stacks to find its slowest function."""
        slot, subject = self._view.selected, self._view.subject
        self._sampled = subject, "sampling now", None
        self.show_verdict(self._speed)
        try:
            spot = await self._engine.hot_spot(slot)
            self._sampled = subject, None if spot is not None else "all are within the simulator's steps", spot
        except GmgError as error:
            self._sampled = subject, str(error), None
        self.show_verdict(self._speed)

    @work(exclusive=True, group="traces")
    async def show_stacks(self) -> None:
        """Takes and shows the current stacks of the selected worker and of all ranks of its group."""
        slot, subject, time = self._view.selected, self._view.subject, self._view.snapshot.time
        self._stacks = subject, time, []
        self.show_verdict(self._speed)
        try:
            facts = [fact for stacks in await self._engine.stacks(slot) for fact in _stack_facts(stacks)]
        except GmgError as error:
            facts = [Fact("", str(error), "warn")]
        self._stacks = subject, time, facts
        self.show_verdict(self._speed)


def _stack_facts(stacks: Stacks) -> Iterator[Fact]:
    """Yields the stacks of a worker's threads, the current one first."""
    yield Fact(stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}")
    threads = sorted(stacks.text.strip().split("\n\n"), key=lambda text: not text.startswith("Current thread"))
    if stacks.error:
        yield Fact("", stacks.error, "warn")
    elif stacks.text:
        yield Fact("", "\n\n".join(threads))
