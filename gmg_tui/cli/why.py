"""`why`: print what limits the speed of the workers."""

import asyncio
import textwrap
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note, print_json
from gmg_tui.diagnosis.verdicts import judge
from gmg_tui.model import SpeedFacts, Verdict
from gmg_tui.model.errors import GmgError, listed
from gmg_tui.model.text import one_line
from gmg_tui.results import table
from gmg_tui.results.job_columns import as_plain
from gmg_tui.session.client import EngineClient, Source, answering
from gmg_tui.session.ended_session import EndedSession

_MAX_WIDTH = 116
"""Maximum line width, in cells."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_STACK_VERDICTS = frozenset({"script", "host"})
"""Verdicts that stacks can explain."""


def why(words: tuple[str, ...], *, as_json: bool, stacks: bool) -> int:
    """Prints the verdict on the worker named by `words` (`NAME`, `NAME SLOT`, `SLOT`), or on all; returns 0.

    `stacks` samples stacks of every worker, not only of those whose script is slow. Raises `GmgError`.
    """
    if len(words) > 2:
        raise GmgError("give the session's name and the slot: gmg-tui why [NAME] [SLOT]")
    sessions.clear_lost(note)
    name, slot = sessions.split_words(words)
    runs = any(entry.answers for entry in sessions.listing())
    entry = sessions.find(name, running=runs and name is None)
    answers = asyncio.run(_ask(entry, slot, stacks=stacks))
    if as_json:
        print_json([{"slot": of.slot, "verdict": as_plain(verdict), "facts": as_plain(of)} for of, verdict in answers])
    else:
        width = max((len(facts.slot) for facts, _ in answers), default=0)
        print("\n".join(line for facts, verdict in answers for line in lines(facts.slot, verdict, width)))
    return 0


def lines(slot: str, verdict: Verdict, width: int) -> Iterator[str]:
    """Yields the lines of a verdict, the slot in `width` cells."""
    yield f"{slot:{width}}  {one_line(verdict.text)}"
    columns = min(table.stdout_format()[0] or _MAX_WIDTH, _MAX_WIDTH)
    indent = " " * (width + 2)
    facts = (fact.replace(" ", _NO_BREAK) if len(fact) < columns / 2 else fact for fact in verdict.evidence)
    wrapper = textwrap.TextWrapper(columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    for text in (" · ".join(facts), f"try: {verdict.advice}" if verdict.advice else ""):
        for line in wrapper.wrap(text):
            yield line.replace(_NO_BREAK, " ")


async def _ask(entry: sessions.SessionEntry, slot: str | None, *, stacks: bool) -> list[tuple[SpeedFacts, Verdict]]:
    session = entry.record.session
    if entry.answers:
        client: Source = await EngineClient.connect(Path(session.spec.socket), session.id)
    else:
        client = await EndedSession.open(entry.folder, session, loss=entry.remark)
    async with answering(client):
        slots = [worker.slot for worker in client.welcome.snapshot.workers]
        if slot is not None and slot not in slots:
            raise GmgError(f"there is no session or worker {slot}; {entry.name} has {listed(slots) or 'no worker yet'}")
        wanted = slots if slot is None else [slot]
        asked = (_answer(client, each, stacks=stacks) for each in wanted)
        answers = dict(zip(wanted, await asyncio.gather(*asked, return_exceptions=True), strict=True))
    for each, answer in answers.items():
        if isinstance(answer, BaseException):
            if len(wanted) == 1 or not isinstance(answer, GmgError):
                raise answer
            note(f"gmg-tui: {each}: {answer}")
    return [answer for answer in answers.values() if not isinstance(answer, BaseException)]


async def _answer(client: Source, slot: str, *, stacks: bool) -> tuple[SpeedFacts, Verdict]:
    facts = await client.speed(slot)
    verdict = judge(facts)
    if facts.state.live and (stacks or verdict.kind in _STACK_VERDICTS):
        try:
            facts = structs.replace(facts, hot_spot=await client.hot_spot(slot))
        except GmgError as error:
            note(f"gmg-tui: {slot}: {error}")
        verdict = judge(facts)
    return facts, verdict
