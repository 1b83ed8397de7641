"""One node: connection, silence and logs; and the slots of several agents on this machine in one session."""

import asyncio
import gc
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from unittest.mock import AsyncMock, MagicMock

import msgspec
import psutil
import pytest
from msgspec import structs

from gmg_tui.engine import clock
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop, StopCause, Task
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.launchers.launcher import Launcher, Local
from gmg_tui.engine.nodes import logs, remote_attempt
from gmg_tui.engine.nodes.agent import Agent
from gmg_tui.engine.nodes.fleet import Fleet
from gmg_tui.engine.nodes.logs import AgentLogs, LogCopies
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.engine.nodes.states import Assignment, AttemptReport, Report, SlotReport, decode_result
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.machine import files
from gmg_tui.machine.folders import remove_tree
from gmg_tui.model import (
    NO_ATTEMPT,
    AgentSpec,
    NodesSpec,
    Rank,
    Session,
    Slot,
    Snapshot,
    Worker,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.scripts.torchrun import Rendezvous
from gmg_tui.session import AGENT_MARK
from gmg_tui.session.protocol import Action, Lines, LogChunk, SetSlot, Update, Welcome
from tests.engine.harness import running, spawn, spec_for
from tests.engine.nodes.fleets import SLOTS, nothing_left, on_nodes
from tests.patience import LONG_S, eventually
from tests.workers import alerts

_GREETED = f"""echo '{AGENT_MARK}{{"ok":true}}'; """


class Shell(Launcher):
    """Its agents are commands of a shell."""

    def __init__(self, command: str) -> None:
        self._command = command

    async def list_nodes(self) -> tuple[str, ...]:
        return ("n1",)

    def command(self, node: str) -> Sequence[str]:
        return ("sh", "-c", self._command)


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "error"),
    [
        (r"printf 'no route to it\r\n' >&2; exec 1>&-; sleep 600", "no route to it"),
        ("yes no | head -c 300000 >&2; echo no route >&2; exec 1>&-; sleep 600", "no route"),
        (f"{_GREETED} head -c 1000 /dev/zero; sleep 600", "it sent an invalid message"),
        (f"{_GREETED} exec 1>&-; sleep 600", "no engine answers at n1's agent"),
        ("yes; sleep 600", "its output is not an agent's answer"),
        ("head -c 3000000 /dev/zero; sleep 600", "its output is not an agent's answer"),
        (f"echo '{AGENT_MARK}{{\"ok\":{'[' * 30000}' ; sleep 600", "its output is not an agent's answer"),
        (f"""echo '{AGENT_MARK}{{"ok":' ; sleep 600""", "its output is not an agent's answer"),
        ("setsid -f timeout 60 yes; head -c 3000000 /dev/zero >&2; sleep 600", "its output is not an agent's answer"),
    ],
    ids=["unreachable", "talkative", "nonsense", "broken", "endless", "long line", "deep", "no JSON", "held open"],
)
async def test_a_failed_connection_leaves_no_process(command: str, error: str) -> None:
    spec = spec_for(nodes=NodesSpec("local"))
    node = Node("n1", spec, Shell(command), lambda: None, lambda _: None)
    node.start(spec)
    failed = await node.answered
    assert failed is not None
    assert error in str(failed)
    assert "it·" not in str(failed)  # the end of a line of ssh
    await node.end(kill=True, within_s=0.0)
    gc.collect()  # a transport that was left open would be closed now, which pytest reports
    assert not [child for child in psutil.Process().children(recursive=True) if "sleep" in child.cmdline()]


@pytest.mark.process
@pytest.mark.parametrize("name", ["../../up", "-V", "\x1b[2J", "a/b", "x" * 1000])
async def test_a_node_whose_name_is_not_a_valid_folder_name_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command, printed in (("srun", ""), ("scontrol", name)):
        (tmp_path / command).write_text(f"#!/bin/sh\necho '{printed}'\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    _, answer = await spawn(spec_for(cpu=1, nodes=NodesSpec("slurm")))
    assert "is not a usable node name" in answer["error"]


async def test_a_node_that_closes_each_connection_is_tried_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, pauses_s = spec_for(nodes=NodesSpec("local")), list[float]()
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)

    async def closed(order: bytes) -> str:
        if len(pauses_s) > 6:
            node.gone = "enough"
        return "it was closed"

    async def at_once(_: asyncio.Event, timeout_s: float) -> None:
        pauses_s.append(timeout_s)

    monkeypatch.setattr(node, "_connect", closed)
    monkeypatch.setattr(clock, "any_of", at_once)
    await node._run(b"")
    assert pauses_s[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0]


async def test_what_an_agent_says_as_it_leaves_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed() -> None:
        node.gone = "gone"

    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), changed, lambda _: None)
    monkeypatch.setattr(node, "_connect", AsyncMock(return_value="x" * 1_000_000))
    await node._run(b"")
    assert len(node._trouble or "") == 1000


async def test_a_silent_node_is_lost_unless_the_engine_itself_was_stopped() -> None:
    spec = spec_for(nodes=NodesSpec("local"))
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)
    node.session, now = Session(spec, (), 0, 0.0, ""), time.monotonic()
    node.check(now + 100.0, delayed_s=99.0)
    assert node.lost_since is None
    node.check(now + 114.0, delayed_s=0.0)
    assert node.lost_since is None
    node.check(now + 116.0, delayed_s=0.0)
    assert node.lost_since is not None


async def test_a_worker_waits_for_its_node_only_while_that_is_not_there() -> None:
    spec = spec_for(nodes=NodesSpec("local"))
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)
    reasons = []
    for available in (False, True):
        if available:
            node.available.set()
        listener = MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=Task((), {}, 0, 1))
        running = asyncio.create_task(RemoteAttempt(node, listener).run())
        await asyncio.sleep(0.05)
        reasons.append(listener.set_wait_reason.call_args.args[0])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert reasons == ["for n1", None]


async def test_a_worker_that_was_stopped_is_no_longer_stuck_whatever_its_node_reported_before() -> None:
    """Else `--on stuck=restart` would start another attempt after the stop."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    listener = MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=Task((), {}, 0, 1))
    attempt = RemoteAttempt(node, listener)
    running = asyncio.create_task(attempt.run())
    await asyncio.sleep(0.05)
    newest = structs.replace(NO_ATTEMPT, number=1)
    view = Worker("n1/cpu0", 0, WorkerState.RUNNING, newest=newest, alerts=alerts(stuck="no output for 9 s"))
    seen = RankActivity(attempt=1, has_process=True, leader_runs=True)
    report = AttemptReport(attempt.assignment.key, view, seen)
    for stops, idle in ((False, "no output for 9 s"), (True, None)):
        if stops:
            attempt.stop(Stop())
        attempt.apply_report(report)
        assert listener.set_stuck.call_args.args == (idle,)
        assert attempt.activity().has_process is not stops
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_process_has_begun_once_its_node_reports_it_after_its_attempt() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    listener = MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=Task((), {}, 0, 1))
    attempt = RemoteAttempt(node, listener)
    running = asyncio.create_task(attempt.run())
    await eventually(lambda: attempt.assignment)
    assert attempt.assignment is not None
    for pid, begun in ((None, 0), (7, 1), (7, 1)):
        view = Worker("n1/cpu0", 0, WorkerState.STARTING, newest=structs.replace(NO_ATTEMPT, number=1, pid=pid))
        attempt.apply_report(AttemptReport(attempt.assignment.key, view))
        assert (listener.on_prepared.call_count, listener.on_started.call_count) == (1, begun)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_an_attempt_was_given_is_known_here_whatever_its_node_reports() -> None:
    """A user may run it again on another machine."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    task = Task(("--k", "{k}", "{slot}"), {"A": "{k}"}, 0, 1, values={"k": 2})
    attempt = RemoteAttempt(node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=task))
    running = asyncio.create_task(attempt.run())
    await eventually(lambda: attempt.assignment)
    assert attempt.assignment is not None
    forged = structs.replace(NO_ATTEMPT, number=10**15, given=("--forged",), env={"LD_PRELOAD": "theirs"})
    attempt.apply_report(
        AttemptReport(attempt.assignment.key, Worker("n1/cpu0", 0, WorkerState.RUNNING, newest=forged))
    )
    record = attempt.record()
    assert (record.number, record.given, record.env) == (1, ("--k", "2", "{slot}"), {"A": "2"})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_attempt_that_was_lost_with_its_node_has_ended_and_uses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    attempt = RemoteAttempt(
        node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=Task((), {}, 0, 1, job=1))
    )
    running = asyncio.create_task(attempt.run())
    await eventually(lambda: attempt.assignment)
    assert attempt.assignment is not None
    newest = structs.replace(NO_ATTEMPT, number=1, pid=7)
    view = Worker("n1/cpu0", 0, WorkerState.RUNNING, newest=newest, cpu_pct=350.0, memory_rss_mib=9.0)
    attempt.apply_report(AttemptReport(attempt.assignment.key, view))
    monkeypatch.setattr(remote_attempt, "orphan_end_s", lambda spec: 0.0)
    node._mark_lost("it has been silent")
    await running
    attempt.end = WorkerState.FAILED, "n1 is lost"
    for now in (1.0, 2.0):
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        seen = attempt.view()
        assert (seen.newest.ended, seen.cpu_pct, seen.memory_rss_mib) == (1.0, None, None)


async def test_a_rank_whose_node_is_lost_during_rendezvous_fails_for_that_reason() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()

    async def meet() -> Rendezvous:
        node._mark_lost("it has been silent")
        return Rendezvous(0, 2, 1, 0, 0, "id", "")

    task = Task((), {}, 0, 1, rank=Rank("g0", 0, 2))
    listener = MagicMock(rendezvous=meet, reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=task)
    outcome = await RemoteAttempt(node, listener).run()
    assert outcome.failure is not None
    assert outcome.failure.reason == "n1 is lost"
    listener.on_leader_exit.assert_called_once()


@pytest.mark.parametrize("cause", [StopCause.COMMAND, StopCause.GROUP])
async def test_an_attempt_that_is_stopped_before_its_agent_begins_it_has_an_outcome(cause: StopCause) -> None:
    spec = spec_for(agent=AgentSpec("n1", "sim", "id", ""))
    host, slot = MagicMock(), EngineSlot(Slot("cpu0"), 0, 1)
    host.spec, host.create_attempt = spec, lambda slot, worker: LocalAttempt(host, slot.ring, slot.memory, worker)
    agent = Agent({"cpu0": slot}, host, MagicMock(), lambda: None)
    assignment = Assignment(1, Task((), {}, 0, 1), stop=Stop(cause))
    agent.assign(agent, SetSlot("cpu0", msgspec.Raw(msgspec.msgpack.encode(assignment))))
    (assigned,) = agent._assigned.values()
    outcome = msgspec.msgpack.decode(assigned.report().attempt, type=AttemptReport).outcome
    assigned.task.cancel()
    assert (outcome.by_user, outcome.by_group) == (cause is StopCause.COMMAND, cause is StopCause.GROUP)


async def test_ranks_that_cannot_meet_say_why() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    task, rendezvous = Task((), {}, 0, 1, rank=Rank("g0", 0, 2)), AsyncMock(side_effect=GmgError("they cannot meet", 1))
    outcome = await RemoteAttempt(
        node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0"), task=task, rendezvous=rendezvous)
    ).run()
    assert outcome.failure.reason == "they cannot meet"


async def test_a_rank_that_has_ended_is_not_assigned_again_by_a_later_stop() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.available.set()
    attempt = RemoteAttempt(node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0"), task=Task((), {}, 0, 1)))
    running = asyncio.create_task(attempt.run())
    await eventually(lambda: attempt.assignment)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    attempt.stop(Stop(kill=True))
    assert node.attempts == {}


_LOG = "logs/n1/cpu0.log"


async def test_a_copied_log_keeps_lines_that_the_node_cuts_out(tmp_path: Path) -> None:
    there, here = tmp_path / "there" / _LOG, tmp_path / "here" / _LOG
    for path in (there, here):
        path.parent.mkdir(parents=True)
    here.write_bytes(b"from an earlier engine\n")
    there.write_bytes(b"".join(b"line %09d of the log\n" % number for number in range(200_000)))
    expected, more = b"from an earlier engine\n" + there.read_bytes(), b"and more\n" * 1_000_000
    kept, copies = AgentLogs(str(tmp_path / "there"), shared=False), LogCopies(tmp_path / "here")
    for mark in range(3):
        assert not await kept.all_sent()
        copies.schedule(_LOG, mark)
        await copies.catch_up(kept.read)
        assert here.read_bytes() == expected
        assert await kept.all_sent()
        with there.open("ab") as file:
            file.write(more)
        expected += more
        if mark == 0:
            files.cut_log(there, 1 << 20)  # also bytes that are not copied yet
            _, note = there.read_bytes().split(b"\n\n[gmg-tui]")
            expected = expected[: -len(more)] + b"\n[gmg-tui]" + note
        assert expected.endswith(b"and more\n")


async def test_a_nodes_log_is_kept_when_it_returns_with_an_empty_disk(tmp_path: Path) -> None:
    there, here = tmp_path / "there" / _LOG, tmp_path / "here" / _LOG
    kept, copies = AgentLogs(str(tmp_path / "there"), shared=False), LogCopies(tmp_path / "here")
    there.parent.mkdir(parents=True)
    for mark, text in enumerate((b"attempt 1\n", b"attempt 2\n")):
        there.write_bytes(text)
        copies.schedule(_LOG, mark)
        await copies.catch_up(kept.read)
        there.rename(tmp_path / str(mark))
        copies.on_agent_replaced()
    assert here.read_bytes() == b"attempt 1\nattempt 2\n"


async def test_folders_that_a_script_nests_among_the_logs_do_not_keep_an_agent(tmp_path: Path) -> None:
    here, logs = Path.cwd(), tmp_path / "logs"
    logs.mkdir()
    try:
        os.chdir(logs)
        for _ in range(1100):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)
    assert await AgentLogs(str(tmp_path), shared=False).all_sent()
    with pytest.raises(GmgError, match="is not a log"):
        await AgentLogs(str(tmp_path), shared=False).read("logs/../x.log", 0)
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs/0001-data=..-a.log").write_bytes(b"x")
    assert (await AgentLogs(str(tmp_path), shared=False).read("logs/0001-data=..-a.log", 0)).data == b"x"
    remove_tree(logs)


@pytest.mark.parametrize("advances", [True, False])
async def test_a_node_that_does_not_keep_to_the_limit_of_logs_fills_no_disk(tmp_path: Path, advances: bool) -> None:
    async def read(path: str, offset: int) -> LogChunk:
        return LogChunk(bytes(8 << 20 if offset < 99 else 0), end=offset + 1 if advances else 1, file=1)

    copies = LogCopies(tmp_path, 1 << 20)
    copies.schedule(_LOG, 1)
    async with asyncio.timeout(LONG_S):
        await copies.catch_up(read)
    assert (tmp_path / _LOG).stat().st_size <= 1 << 20


async def test_results_are_limited_and_decoded_only_when_asked_for() -> None:
    """Half a million empty lists are 1.5 MB, and decoded 30 MB."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    attempts = {f"n1/cpu{number}": MagicMock() for number in range(6)}
    node.attempts.update(attempts)
    lists: list[list[int]] = [[]] * 500_000
    sent = SlotReport.from_attempt(AttemptReport(1, Worker("", 0, WorkerState.RUNNING)), {"x": lists}, {})
    large = Worker("", 0, WorkerState.RUNNING, last_line="x" * 200_000)
    many = Report({f"n1/cpu{number}": SlotReport.from_attempt(AttemptReport(1, large), {}, {}) for number in range(32)})
    with pytest.raises(GmgError, match="reports too much"):  # for a snapshot of the session
        node._apply_report(msgspec.Raw(msgspec.msgpack.encode(many)))
    node._apply_report(msgspec.Raw(msgspec.msgpack.encode(Report({"n1/cpu0": sent}))))
    (call,) = attempts["n1/cpu0"].apply_report.call_args_list
    assert call.args[1:] == (sent.result, b"")
    assert decode_result(sent.result) == decode_result(b'{"x":' + b"[" * 100_000) == {}
    assert decode_result(b'{"x": [%s1]}' % (b"[]," * 16_000)) == {"x": [*[[]] * 16_000, 1]}


@pytest.mark.parametrize("part", ["view", "outcome", "snapshot"])
async def test_a_node_that_reports_more_than_clients_can_be_sent_is_cut_off(part: str) -> None:
    """Its texts would make snapshots that no client takes: nobody could stop the session."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), Shell("true"), lambda: None, lambda _: None)
    node.attempts["n1/cpu0"] = attempt = MagicMock()
    text = "x" * (5 << 20 if part == "snapshot" else 1 << 20)
    view = Worker("n1/cpu0", 0, WorkerState.RUNNING, last_line=text if part == "view" else "")
    outcome = Outcome(Failure(FailureKind.UNKNOWN, text, "")) if part == "outcome" else None
    sent = SlotReport.from_attempt(AttemptReport(1, view, outcome=outcome), {"kept": "x" * (1 << 20)}, {})
    reports = Report({"n1/cpu0": sent} if part != "snapshot" else {})
    client = MagicMock(events=lambda: _events(Update(Snapshot(0.0, 0.0, (), nvml_error=text))), set_slot=AsyncMock())
    with pytest.raises(GmgError, match="its agent reports too much"):  # noqa: PT012
        node._apply_report(msgspec.Raw(msgspec.msgpack.encode(reports)))
        await node._exchange(client)
    assert not attempt.apply_report.called


async def test_the_lines_of_an_agent_follow_those_of_the_one_it_replaces() -> None:
    spec = spec_for(nodes=NodesSpec("local:1"))
    fleet, engine_slot = Fleet(spec, NodesSpec("local:1")), EngineSlot(Slot("n1/cpu0", node="n1"), 0, 1)
    fleet._nodes["n1"] = node = Node("n1", spec, Shell("true"), lambda: None, fleet._append_lines)
    fleet._slots = {"n1/cpu0": engine_slot}
    for agent, first, *texts in (("1", 0, "a", "b"), ("1", 1, "b", "c"), ("2", 0, "d"), ("2", 0, "d", "e")):
        node.session = Session(spec, (engine_slot.slot,), 0, 0.0, "", id=str(agent))
        fleet._append_lines(Lines("n1/cpu0", int(first), tuple(map(str, texts))))
    assert engine_slot.ring.lines_from(0) == (0, [b"a", b"b", b"c", b"d", b"e"])


async def _events(*events: Update) -> AsyncIterator[Update]:
    for event in events:
        yield event


async def test_a_node_with_many_slots_may_not_send_gigabytes_at_once() -> None:
    spec = spec_for(nodes=NodesSpec("local"), cpu=256)
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)
    slots = tuple(Slot(f"n1/cpu{number}") for number in range(256))
    client = MagicMock(welcome=Welcome(Session(spec, slots, 0, 0.0, ""), Snapshot(0.0, 0.0, ()), ()))
    node._accept(client)
    assert client.max_report_bytes <= 256 << 20


@pytest.mark.parametrize("name", ["good/cpu0", "cpu0", "n1/good/cpu0", "n1/"])
async def test_a_node_may_not_name_slots_of_another(name: str) -> None:
    spec = spec_for(nodes=NodesSpec("local"), cpu=1)
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)
    client = MagicMock(welcome=Welcome(Session(spec, (Slot(name),), 0, 0.0, ""), Snapshot(0.0, 0.0, ()), ()))
    with pytest.raises(GmgError, match="invalid slots"):
        node._accept(client)


async def test_a_disk_that_does_not_answer_blocks_no_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(logs, "_read", lambda *_: answers.wait(LONG_S))
    reading = asyncio.create_task(AgentLogs(str(tmp_path), shared=False).read(_LOG, 0))
    await asyncio.sleep(0)
    assert not reading.done()
    answers.set()
    assert await reading


# A plain run on two nodes: what a worker is given and does, commands, logs and the end

RUNNING = WorkerState.RUNNING


async def test_workers_of_all_nodes_are_one_session(tmp_path: Path) -> None:
    spec = on_nodes("--lines", "4", "--phase-s", "0.01", "--print-env", str(tmp_path / "{i}-of-{n}"))
    async with running(spec) as run:
        assert [slot.name for slot in run.client.welcome.session.slots] == list(SLOTS)
        await run.until(lambda snapshot: snapshot.ended)
    for index, slot in enumerate(SLOTS):
        env = json.loads((tmp_path / f"{index}-of-4").read_text())["env"]
        names = ("GMG_SESSION", "GMG_SLOT", "GMG_WORKER_INDEX", "GMG_NUM_WORKERS")
        assert tuple(env[name] for name in names) == (spec.name, slot, str(index), "4")
        assert b"Running at" in run.output(slot)
    summary = run.summary()
    assert [worker["slot"] for worker in summary["workers"]] == list(SLOTS)
    assert [worker["node"] for worker in summary["workers"]] == ["n1", "n1", "n2", "n2"]
    assert {worker["state"] for worker in summary["workers"]} == {"finished"}
    nothing_left(spec)


async def test_a_worker_on_a_node_is_stopped_restarted_and_edited() -> None:
    async with running(on_nodes("--lines", "100000", "--phase-s", "0.01")) as run:
        for slot in SLOTS:
            await run.until_state(slot, RUNNING)
        await run.client.act(Action.STOP, "n2/cpu1")
        await run.until_state("n2/cpu1", WorkerState.STOPPED)
        await run.client.act(Action.RESTART, "n2/cpu1")
        await run.until(lambda _: (run.worker("n2/cpu1").attempt, run.worker("n2/cpu1").state) == (2, RUNNING))
        args = ("--lines", "100000", "--phase-s", "0.01", "-B", "32")
        await run.client.edit(("n1/cpu0",), args, {"A": "b"})
        await run.until(lambda _: (run.worker("n1/cpu0").attempt, run.worker("n1/cpu0").newest.n_envs) == (2, 32))
        details = await run.client.details("n1/cpu0")
        assert [attempt.number for attempt in details.attempts] == [1, 2]
        assert details.env["GMG_ATTEMPT"] == "2"
        assert details.args == args
        await run.client.act(Action.KILL, *SLOTS)
        await run.until(lambda snapshot: snapshot.ended)


@pytest.mark.parametrize("where", ["0", "x", "-1"])
def test_the_number_of_agents_is_checked(where: str) -> None:
    with pytest.raises(GmgError, match=f"--nodes local:{where}: give the number of agents to start on this machine"):
        Local(where)
