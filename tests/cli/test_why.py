"""`why` on the command line: of a session that has ended, the verdicts that were recorded."""

import asyncio
import json

import pytest
from msgspec import structs

from gmg_tui.cli.why import verdict_lines, why
from gmg_tui.model import SpeedFacts, Verdict, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.ended_session import EndedSession
from tests.cli.conftest import Gmg
from tests.results.report import stored

_VERDICT = Verdict(
    "script", "host-bound: 71 % of each step is the script", True, ("time: script 71 %",), "vectorise it"
)


def test_an_ended_session_has_the_verdicts_of_its_attempts(gmg: Gmg) -> None:
    snapshot = stored.snapshot(gpu0=24e6, gpu1=23e6)
    first, other = snapshot.workers
    workers = structs.replace(first, newest=structs.replace(first.newest, verdict=_VERDICT)), other
    asyncio.run(stored.session("sim-1", stored.jobs(2), snapshot=structs.replace(snapshot, workers=workers)))
    assert gmg("why").stdout == (
        "gpu0  stopped\n"
        "      its last attempt: host-bound: 71 % of each step is the script · time: script 71 %\n"
        "      try: vectorise it\n"
        "gpu1  stopped\n"
    )
    assert gmg("why", "sim-1", "gpu1").stdout == gmg("why", "gpu1").stdout == "gpu1  stopped\n"
    (answer,) = json.loads(gmg("why", "gpu0", "--json").stdout)
    assert answer["verdict"]["kind"] == WorkerState.STOPPED
    assert answer["facts"]["recorded"]["text"] == _VERDICT.text
    wrong = gmg("why", "gpu9")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "gmg-tui: there is no session or worker gpu9; sim-1 has gpu0, gpu1\n",
    )


def test_a_worker_without_an_answer_costs_no_other_workers_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(stored.session("sim-1", stored.jobs(2), snapshot=stored.snapshot(gpu0=24e6, gpu1=23e6)))
    answered = EndedSession.speed

    async def speed(self: EndedSession, slot: str) -> SpeedFacts:
        if slot == "gpu0":
            raise GmgError("the node's answer is not valid")
        return await answered(self, slot)

    monkeypatch.setattr(EndedSession, "speed", speed)
    assert why((), as_json=False, stacks=False) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("gpu1  stopped\n", "gmg-tui: gpu0: the node's answer is not valid\n")
    with pytest.raises(GmgError, match="not valid"):
        why(("gpu0",), as_json=False, stacks=False)


def test_a_long_fact_is_wrapped_between_words() -> None:
    fact = (
        "its last attempt: probably host-bound: 100 % of the time is the simulator's own code, and too few environments"
    )
    first, *rest = verdict_lines("cpu0", Verdict("finished", "finished", evidence=(f"{fact} to fill the cores",)), 4)
    assert first == "cpu0  finished"
    assert [line.strip() for line in rest] == [fact, "to fill the cores"]
