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
from gmg_tui.model.errors import GmgError, join_words
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
    """Prints the verdict on the worker named by `words` (`NAME SLOT` or `SLOT`), or on all (`NAME` or none); returns 0.

    `stacks` samples the stacks of every live worker, even if they cannot explain the verdict. Raises `GmgError`.
    """
    if len(words) > 2:
        raise GmgError("give the session's name and the slot: gmg-tui why [NAME] [SLOT]")
    sessions.clear_lost(note)
    name, slot = sessions.split_words(words)
    any_running = any(entry.runs_here for entry in sessions.list_sessions())
    entry = sessions.find(name, running=any_running and name is None)
    judged = asyncio.run(_judge_workers(entry, slot, stacks=stacks))
    if as_json:
        print_json(
            [{"slot": facts.slot, "verdict": as_plain(verdict), "facts": as_plain(facts)} for facts, verdict in judged]
        )
    else:
        width = max((len(facts.slot) for facts, _ in judged), default=0)
        print("\n".join(line for facts, verdict in judged for line in verdict_lines(facts.slot, verdict, width)))
    return 0


def verdict_lines(slot: str, verdict: Verdict, width: int) -> Iterator[str]:
    """Yields the lines of a verdict, with the slot's name padded to `width` cells."""
    yield f"{slot:{width}}  {one_line(verdict.text)}"
    max_width = min(table.stdout_format()[0] or _MAX_WIDTH, _MAX_WIDTH)
    indent = " " * (width + 2)
    facts = (fact.replace(" ", _NO_BREAK) if len(fact) < max_width / 2 else fact for fact in verdict.evidence)
    wrapper = textwrap.TextWrapper(max_width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    for text in (" · ".join(facts), f"try: {verdict.advice}" if verdict.advice else ""):
        for line in wrapper.wrap(text):
            yield line.replace(_NO_BREAK, " ")


async def _judge_workers(
    entry: sessions.SessionEntry, slot: str | None, *, stacks: bool
) -> list[tuple[SpeedFacts, Verdict]]:
    """Returns the facts and verdicts of all workers of a session, or of the one on `slot`. Raises `GmgError`."""
    session = entry.record.session
    if entry.runs_here:
        client: Source = await EngineClient.connect(Path(session.spec.socket), session.id)
    else:
        client = await EndedSession.open(entry.folder, session, loss=entry.remark)
    async with answering(client):
        slots = [worker.slot for worker in client.welcome.snapshot.workers]
        if slot is not None and slot not in slots:
            raise GmgError(
                f"there is no session or worker {slot}; {entry.name} has {join_words(slots) or 'no worker yet'}"
            )
        chosen = slots if slot is None else [slot]
        coroutines = (_judge_worker(client, name, stacks=stacks) for name in chosen)
        results = dict(zip(chosen, await asyncio.gather(*coroutines, return_exceptions=True), strict=True))
    for name, result in results.items():
        if isinstance(result, BaseException):
            if len(chosen) == 1 or not isinstance(result, GmgError):
                raise result
            note(f"gmg-tui: {name}: {result}")
    return [result for result in results.values() if not isinstance(result, BaseException)]


async def _judge_worker(client: Source, slot: str, *, stacks: bool) -> tuple[SpeedFacts, Verdict]:
    facts = await client.speed(slot)
    verdict = judge(facts)
    if facts.state.live and (stacks or verdict.kind in _STACK_VERDICTS):
        try:
            facts = structs.replace(facts, hot_spot=await client.hot_spot(slot))
        except GmgError as error:
            note(f"gmg-tui: {slot}: {error}")
        verdict = judge(facts)
    return facts, verdict
