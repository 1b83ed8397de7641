"""A node whose agent lies harms its own slots alone (`liar.py`)."""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import msgspec
import pytest
from msgspec import structs

from gmg_tui.diagnosis.facts import Facts
from gmg_tui.diagnosis.kinds import Watch
from gmg_tui.engine.api.client import Updates
from gmg_tui.engine.attempts.attempt import Outcome, StopCause, Task
from gmg_tui.engine.attempts.curves import MAX_CURVES, MAX_POINTS
from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.engine.nodes import states
from gmg_tui.engine.nodes.logs import LogCopies
from gmg_tui.engine.nodes.node import Node
from gmg_tui.engine.nodes.plausible import sanitize
from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt
from gmg_tui.engine.nodes.states import AttemptReport, Report, SlotReport, check_slots, decode_result
from gmg_tui.engine.workers.restart_policy import HEALTHY_S
from gmg_tui.model import (
    NO_ATTEMPT,
    Alert,
    Attempt,
    Checkpoint,
    Curve,
    Gpu,
    GpuHealth,
    GpuSample,
    GpuTrouble,
    NodesSpec,
    Severity,
    Slot,
    Snapshot,
    TuneSpec,
    Worker,
    WorkerState,
)
from gmg_tui.model.attempt import MAX_CHECKPOINTS
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tuning import TrialState
from gmg_tui.scripts.checkpoints import before_nan
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Action, LogChunk
from tests.engine.harness import FAKE, program, running, spec_for, sweep_for
from tests.engine.nodes.fleets import ENDLESS
from tests.patience import eventually

_NODES = NodesSpec("ssh:good,evil")


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    patch = "from gmg_tui.engine import supervisor\nfrom gmg_tui.engine.nodes import fleet, remote_attempt\n"
    grace = "remote_attempt._END_REPORT_TIMEOUT_S" if request.param == "stopped" else "supervisor._END_GRACE_S"
    (tmp_path / "sitecustomize.py").write_text(
        f"{patch}{grace} = fleet._END_GRACE_S = 0.5\nremote_attempt.orphan_end_s = lambda spec: 0.5\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GMG_SSH", f"{sys.executable} {Path(__file__).with_name('liar.py')} '{request.param}'")
    return str(request.param)


@pytest.mark.parametrize("kind", ["lines"], indirect=True)
async def test_it_neither_prints_nor_measures_for_others(kind: str) -> None:
    async with running(spec_for(*ENDLESS, nodes=_NODES)) as run:
        await run.client.watch(lines=True)
        await run.until_lines("evil/cpu0", len)
        await run.until_lines("good/cpu0", len)
        assert not [line for line in run.lines["good/cpu0"].values() if "lie" in line]
        assert not run.snapshot.samples


_TROUBLE = {
    "large": "it sent an invalid message",
    **dict.fromkeys(("curves", "empty", "counted", "moments", "address"), "its agent's report cannot be read"),
}


@pytest.mark.parametrize("kind", ["slots", "no slots", "many slots", "twice", "with GPU", *_TROUBLE], indirect=True)
async def test_what_no_agent_sends_ends_its_connection(kind: str) -> None:
    trouble = _TROUBLE.get(kind, "it reports invalid slots")
    async with running(spec_for(*ENDLESS, nodes=_NODES)) as run:
        await run.until(lambda snapshot: trouble in str(snapshot.nodes))
        await run.until_state("good/cpu0", WorkerState.RUNNING)


@pytest.mark.parametrize("kind", ["absurd"], indirect=True)
async def test_impossible_values_are_neither_shown_nor_summed_nor_acted_on(kind: str) -> None:
    async with running(spec_for(*ENDLESS, nodes=_NODES)) as run:
        await run.until(lambda _: run.worker("evil/cpu0").alerts)
        worker = run.worker("evil/cpu0")
        shown = worker.newest
        assert (shown.fps.last, shown.fps.mean, shown.fps.max, shown.fps.settled) == (None,) * 4
        assert (shown.n_envs, shown.energy_j, shown.progress, shown.metrics) == (None, None, None, {"x": -1e300})
        assert max(shown.started, shown.alerts[0].since) <= time.time()
        assert [saved.path for saved in shown.checkpoints] == ["/model.pt"]
        assert [alert.kind for alert in (*worker.alerts, *shown.alerts)] == ["nan", "nan"]
        speed = await run.client.speed("evil/cpu0")
        assert (speed.slot, speed.gpu_util_pct, speed.n_envs, speed.sample) == ("evil/cpu0", None, None, GpuSample(""))
        (curve,) = (await run.client.curves("evil/cpu0")).values()
        assert (curve.times[0] <= time.time(), curve.steps, curve.values) == (True, (None,), (-2.5,))
        assert (await run.client.stacks("evil/cpu0"))[0].error == "its agent has none"
        with pytest.raises(GmgError, match="cannot be read"):
            await run.client.hot_spot("evil/cpu0")


@pytest.mark.parametrize("kind", ["endless"], indirect=True)
async def test_the_session_ends_although_it_reports_no_end(kind: str) -> None:
    async with running(spec_for(*ENDLESS, nodes=_NODES)) as run:
        await run.until_state("evil/cpu0", WorkerState.RUNNING)
        await run.client.act(Action.KILL, "good/cpu0")
        await run.client.end(kill=True)
        await run.until(lambda _: run.worker("evil/cpu0").last_line == "asked to end")  # clients hear of its end
        await run.until(lambda snapshot: snapshot.ended)
        assert await run.process.wait() == 0
        assert run.record().ended is not None
        assert [worker.state.ended for worker in run.record().workers] == [True, True]


@pytest.mark.parametrize("kind", ["stopped"], indirect=True)
async def test_an_attempt_whose_end_it_does_not_report_ends_soon_after_the_signals_waits(kind: str) -> None:
    async with running(spec_for(*ENDLESS, nodes=_NODES)) as run:
        await run.until_state("evil/cpu0", WorkerState.RUNNING)
        await run.client.act(Action.STOP, "evil/cpu0")
        await run.until_state("evil/cpu0", WorkerState.FAILED)
        assert run.worker("evil/cpu0").reason == "evil has not reported the attempt's end"
        await run.client.end()
        await run.until(lambda snapshot: snapshot.ended)


@pytest.mark.parametrize("kind", ["ignores"], indirect=True)
async def test_a_tuning_goes_on_where_one_of_two_nodes_says_that_the_script_cannot_be_tuned(kind: str) -> None:
    tuned = program("-B", "{n_envs}", *ENDLESS, script=FAKE)
    spec = sweep_for([], tuned, cpu=1, nodes=_NODES, tune=TuneSpec(low=16, high=64, settle_s=1.0))
    async with running(spec) as run:
        await run.until(lambda s: s.tuning and any("ignores" in (trial.reason or "") for trial in s.tuning.trials))
        await run.until(lambda s: any(trial.state is TrialState.MEASURED for trial in s.tuning.trials))
        assert not run.snapshot.tuning.ended


@contextlib.asynccontextmanager
async def _attempt(task: Task) -> AsyncIterator[tuple[RemoteAttempt, asyncio.Task[Outcome]]]:
    """An attempt that node n1 has been told to run."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), MagicMock(spec=Launcher), lambda: None, lambda _: None)
    node.available.set()
    attempt = RemoteAttempt(node, MagicMock(reserve=AsyncMock(), slot=Slot("n1/cpu0", node="n1"), task=task))
    running = asyncio.create_task(attempt.run())
    await eventually(lambda: attempt.assignment)
    yield attempt, running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _report(attempt: RemoteAttempt, outcome: Outcome | None = None, **newest: Any) -> AttemptReport:
    view = Worker("n1/cpu0", 0, WorkerState.RUNNING, newest=structs.replace(NO_ATTEMPT, **newest))
    return AttemptReport(attempt.assignment.key, view, None, outcome)


async def test_a_new_checkpoint_is_no_older_than_the_attempt_whatever_its_node_reports() -> None:
    earlier, forged = Checkpoint("/runs/1.pt", 5.0), Checkpoint("/thesis.pt", 6.0)
    began = time.time()
    async with _attempt(Task((), {}, 0, 1, checkpoints=(earlier,))) as (attempt, _):
        attempt.apply_report(_report(attempt, number=1, pid=1, checkpoints=(earlier, forged)))
        first, second = attempt.record().checkpoints
        assert first == earlier
        assert second.path == forged.path
        assert second.saved >= began - 1e-3


async def test_an_attempt_without_a_process_has_saved_and_used_nothing() -> None:
    known = (Checkpoint("/runs/1.pt", 5.0),)
    async with _attempt(Task((), {}, 0, 1, checkpoints=known)) as (attempt, _):
        claimed: dict[str, Any] = {
            "checkpoints": (Checkpoint("/runs/2.pt", time.time()),),
            "energy_j": 1e12,
            "metrics": {"reward": 9.0},
        }
        attempt.apply_report(_report(attempt, number=1, **claimed), b'{"reward":9.0}')
        record = attempt.record()
        assert (record.number, record.checkpoints, record.energy_j, record.metrics) == (1, known, None, {})
        assert attempt.result == {}
        attempt.apply_report(_report(attempt, number=1, pid=1, **claimed), b'{"reward":9.0}')
        assert (attempt.record().energy_j, len(attempt.record().checkpoints), attempt.result) == (
            1e12,
            2,
            {"reward": 9.0},
        )


async def test_an_attempt_that_a_node_takes_back_keeps_its_checkpoints() -> None:
    known = (Checkpoint("/runs/1.pt", 5.0, node="n2"),)
    async with _attempt(Task((), {}, 0, 1, checkpoints=known)) as (attempt, _):
        for number in (1, 0):
            attempt.apply_report(_report(attempt, number=number))
            assert (attempt.record().number, attempt.record().checkpoints) == (1, known)


@pytest.mark.parametrize("invented", [0, 20])
async def test_a_node_can_make_no_checkpoint_of_another_forgotten(invented: int) -> None:
    known = tuple(Checkpoint(f"/runs/{number}.pt", float(number)) for number in range(1, 4))
    lies = tuple(Checkpoint(f"/lie/{number}.pt", time.time() + number) for number in range(invented))
    async with _attempt(Task((), {}, 0, 1, checkpoints=known)) as (attempt, _):
        nan = Alert("nan", Severity.ERROR, "loss is NaN", 1.0)
        report = _report(attempt, number=1, pid=1, checkpoints=lies, alerts=(nan,))
        attempt.apply_report(structs.replace(report, view=structs.replace(report.view, alerts=(nan,))))
        record = attempt.record()
        (sign,) = attempt.facts(attempt._report.view, time.monotonic()).signs
        assert (sign.since or 0.0) > known[-1].saved
        assert record.checkpoints[:3] == known
        assert set(known) <= set(before_nan(structs.replace(record, started=0.0)))
        assert len(record.checkpoints) <= MAX_CHECKPOINTS


@pytest.mark.parametrize("end", ["failed", "lost", "unready"])
async def test_only_a_node_that_has_run_a_job_can_condemn_a_checkpoint_of_another_by_nan(end: str) -> None:
    known = tuple(Checkpoint(f"/runs/{number}.pt", float(number)) for number in range(1, 4))
    async with _attempt(Task((), {}, 0, 1, checkpoints=known, job=1)) as (attempt, running):
        failed = Outcome(Failure(FailureKind.UNKNOWN, "", ""), unready="GPU busy" if end == "unready" else None)
        began = {"number": 1, "pid": None if end == "unready" else 1, "started": time.time()}
        outcome = failed if end != "lost" else None
        attempt.apply_report(_report(attempt, outcome, **began, continued_from=known[-1].path))
        attempt.lose("n1 is lost")
        await running
        attempt.end = WorkerState.FAILED, None
        nan = Alert("nan", Severity.ERROR, "loss is NaN", time.time())
        usable = before_nan(structs.replace(attempt.record(), alerts=(nan,)))
        assert usable == (known[:-1] if end == "failed" else known)


def test_the_large_attempts_of_a_node_take_little_memory_once_others_follow() -> None:
    saved = tuple(Checkpoint(f"/runs/{number}.pt", 1.0) for number in range(9))
    attempt = Attempt(
        1, given=("{n}",), args=("a",) * 40_000, metrics={"reward": 1.0, "x" * 999: 2.0}, checkpoints=saved
    )
    assert attempt.brief() == Attempt(1, given=("{n}",), args=("{n}",), metrics={"reward": 1.0})
    nan = Alert("nan", Severity.ERROR, "loss NaN", 5.0)
    broken = {f"{number}": 1.0 for number in range(200)} | {"loss": None}
    large = structs.replace(attempt, metrics=broken, alerts=(structs.replace(nan, kind="stuck"), nan)).brief()
    assert (large.alerts, "loss" in large.metrics) == ((nan,), True), "it decides which checkpoints are usable"
    small = structs.replace(attempt, args=("5",), metrics={"reward": 1.0})
    assert small.brief() == structs.replace(small, checkpoints=saved[-1:])


async def test_a_job_continues_on_a_lost_node_that_is_back_before_its_process_must_have_ended() -> None:
    """Until then, another process of the job elsewhere might write the same files."""
    async with _attempt(Task((), {}, 0, 1, job=1)) as (attempt, running):
        attempt.apply_report(_report(attempt, number=1, pid=1))
        attempt._node._mark_lost("it has been silent")
        assert (attempt.state, running.done()) == (WorkerState.RESTARTING, False)
        attempt._node.lost_since = None
        attempt.apply_report(_report(attempt, number=1, pid=1))
        assert attempt.state is WorkerState.RUNNING
        given_up = Outcome(cause=StopCause.COMMAND)
        attempt.apply_report(_report(attempt, given_up, number=1, pid=1))
        assert (await running).unready == "n1 was lost"


@pytest.mark.parametrize(("pid", "unready"), [(1, None), (None, "GPU busy")])
async def test_an_attempt_is_no_longer_healthy_or_unready_than_its_engine_saw(
    pid: int | None, unready: str | None
) -> None:
    async with _attempt(Task((), {}, 0, 1)) as (attempt, running):
        end = Outcome(Failure(FailureKind.MACHINE, "", ""), running_s=1e9, unready="GPU busy")
        attempt.apply_report(_report(attempt, end, number=1, pid=pid, exit_code=1))
        outcome = await running
        assert outcome.running_s < HEALTHY_S
        assert outcome.unready == unready


@pytest.mark.parametrize("kind", ["leaves"], indirect=True)
async def test_jobs_that_fail_do_not_wait_for_the_gpu_of_a_node_that_is_away(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "bug.py"
    script.write_text("raise RuntimeError('CUDA error: an illegal memory access was encountered')")
    spec = sweep_for([{}] * 5, program(script=str(script)), simulate=1, nodes=structs.replace(_NODES, lost_after_s=2.0))
    async with running(spec) as run:
        assert (await run.until_done()).failed == 5
        await run.client.end(kill=True)


@pytest.mark.parametrize(
    "data",
    [
        b'{"foo": 1%s}' % (b"0" * 400),
        b'{"foo": [%s]}' % (b"9" * 5000),
        b"[1]",
        b"{",
        b'{"a": %s}' % (b"[" * 65 + b"]" * 65),
        b'\\"' * 1_000_000,
        b'{"foo": "\\ud800"}',
        b"",
    ],
)
def test_a_result_that_no_script_can_report_is_ignored(data: bytes) -> None:
    assert decode_result(data) == {}


def test_results_of_a_node_are_read_as_they_were_reported() -> None:
    reported = {"loss": math.inf, "of": [-math.inf, {"text": 'a "gmg:nan" b', "n": 2**64 - 1}], "gmg:x": "gmg:nan "}
    sent = SlotReport.from_attempt(AttemptReport(1, Worker("", 0, WorkerState.RUNNING)), reported, {})
    assert decode_result(sent.result) == reported
    nan = SlotReport.from_attempt(AttemptReport(1, Worker("", 0, WorkerState.RUNNING)), {"x": [math.nan]}, {})
    assert math.isnan(decode_result(nan.result)["x"][0])


def test_texts_of_a_node_are_no_longer_than_a_line_of_output() -> None:
    failure = Failure(FailureKind.SCRIPT, "x" * 100_000, "y" * 100_000)
    report = AttemptReport(1, Worker("n1/cpu0", 0, WorkerState.FAILED, reason="z" * 100_000), None, Outcome(failure))
    assert len(msgspec.json.encode(sanitize(report))) < 30_000


@pytest.mark.parametrize(
    ("slot", "cpu", "valid"),
    [
        (Slot("n1/cpu0"), 1, True),
        (Slot("n1/cpu0"), None, False),
        (Slot("n1/gpu0", Gpu(0, "GPU-1-2", "H100")), None, True),
        (Slot("n1/gpu0-mig1", Gpu(0, "MIG-GPU-1-2/1/0", "H100")), None, True),
        (Slot("n1/gpu0", Gpu(0, "GPU-1-2", "H100")), 1, False),
        (Slot("n1/gpu0", Gpu(0, "", "H100")), None, False),
        (Slot("n1/gpu0", Gpu(0, "GPU-1-2", "x" * 9000)), None, False),
        (Slot("n1/gpu0", Gpu(0, "n2/cpu0", "H100")), None, False),
    ],
)
def test_a_node_shares_no_gpu_with_slots_of_others(slot: Slot, cpu: int | None, valid: bool) -> None:
    with nullcontext() if valid else pytest.raises(GmgError, match="invalid slots"):
        check_slots((slot,), "n1", spec_for(cpu=cpu))


async def test_what_is_too_much_for_a_node_costs_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts may report a result of 1 MiB on each slot, and the engine keeps all."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), MagicMock(spec=Launcher), lambda: None, lambda _: None)
    node.attempts.update(attempts := {f"n1/cpu{number}": MagicMock() for number in range(12)})
    steps, values = tuple(range(1 << 40, (1 << 40) + MAX_POINTS)), tuple(map(float, range(MAX_POINTS)))
    curve = Curve(values, steps, values)
    curves = {f"metric {number:<20}": curve for number in range(MAX_CURVES)}
    attempt = AttemptReport(1, Worker("", 0, WorkerState.RUNNING))

    def report(slot: str, curves: dict[str, Curve]) -> tuple[SlotReport, tuple[bytes, bytes]]:
        sent = SlotReport.from_attempt(attempt, {"x": "x" * ((1 << 20) - 9)}, curves)
        node._apply_report(msgspec.Raw(msgspec.msgpack.encode(Report({slot: sent}))))
        return sent, attempts[slot].apply_report.call_args.args[1:]

    for slot in attempts:
        sent, applied = report(slot, curves if slot == "n1/cpu0" else {})
        assert applied == (sent.result, sent.curves)
    monkeypatch.setattr(states, "_MAX_KEPT_BYTES", {"result": 11 << 20, "curves": 1 << 20})
    assert report("n1/cpu0", {})[1] == (b"", b""), "it keeps its last one"


async def test_curves_are_limited_by_points_and_over_all_slots() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), MagicMock(spec=Launcher), lambda: None, lambda _: None)
    slots = [f"n1/cpu{number}" for number in range(8)]
    node.attempts.update({slot: MagicMock() for slot in slots})

    def report(points: int, curves: int) -> msgspec.Raw:
        curve = Curve((1.0,) * points, (1,) * points, (1.0,) * points)
        attempt = AttemptReport(1, Worker("", 0, WorkerState.RUNNING))
        sent = SlotReport.from_attempt(attempt, {}, {f"m{number}": curve for number in range(curves)})
        return msgspec.Raw(msgspec.msgpack.encode(Report(dict.fromkeys(slots, sent))))

    node._apply_report(report(400, 10))
    for points, curves in ((401, 1), (400, 200)):
        with pytest.raises(GmgError, match=r"its agent reports (too much|more than 256 curves)"):
            node._apply_report(report(points, curves))


def test_what_a_client_is_sent_is_never_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody could stop the session."""
    monkeypatch.setattr(protocol, "MAX_MESSAGE_BYTES", 1 << 20)
    newest = structs.replace(NO_ATTEMPT, number=1, simulator=dict.fromkeys(map(str, range(3000)), "x"))
    worker = Worker("n1/cpu0", 0, WorkerState.RUNNING, newest=newest, last_line="x" * 8192)
    snapshot = Snapshot(1.0, 0.0, (worker,) * 100, samples=(GpuSample("GPU-1"),))
    updates = Updates(lambda: snapshot)
    assert len(updates.encode(None)) < 200_000
    sent = msgspec.msgpack.decode(updates.encode(None)[4:], type=protocol.Message)
    assert [each.state for each in sent.snapshot.workers] == [WorkerState.RUNNING] * 100
    assert updates.encode(snapshot) == protocol.frame(
        protocol.Update(structs.replace(snapshot, workers=()), partial=True)
    )


def test_an_alert_is_short_however_many_texts_a_node_reports() -> None:
    troubles = (GpuTrouble(True, "x" * 10_000, ""),) * 150
    sample = sanitize(GpuSample("GPU-1", health=GpuHealth(troubles=troubles)))
    assert sample.health is not None
    assert len(sample.health.troubles) == 64
    watch, facts = Watch(), Facts(1.0, Worker("n1/gpu0", 0, WorkerState.WAITING), sample=sample)
    watch.update(facts)
    (alert,) = watch.alerts
    assert (alert.kind, len(alert.text)) == ("gpu", 1000)


async def test_a_node_writes_no_log_of_a_job_that_has_moved(tmp_path: Path) -> None:
    async def read(text: bytes, path: str, offset: int) -> LogChunk:
        return LogChunk(text if offset < 5 else b"", end=offset + 1, file=1)

    writers: dict[str, LogCopies] = {}
    evil, good = (LogCopies(tmp_path, writers=writers) for _ in range(2))
    evil.claim(log := "logs/0001.log")
    for node in (evil, good):
        node.schedule(log, 1)
        await node.catch_up(partial(read, b"evil " if node is evil else b"good "))
        evil.schedule(log, 2)
        good.claim(log)
        await evil.catch_up(partial(read, b"later "))
    assert (tmp_path / log).read_bytes() == b"evil " * 5 + b"good " * 5


async def test_a_result_is_decoded_once_however_often_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = MagicMock(return_value={})
    monkeypatch.setattr("gmg_tui.engine.nodes.remote_attempt.decode_result", decode)
    async with _attempt(Task((), {}, 0, 1)) as (attempt, _):
        for result in (b'{"loss": 1}', b'{"loss": 1}', b'{"loss": 2}'):
            attempt.apply_report(_report(attempt, number=1, pid=1), result)
            assert attempt.result == attempt.result == {}
    assert [call.args for call in decode.call_args_list] == [(b'{"loss": 1}',), (b'{"loss": 2}',)]


async def test_the_limits_over_all_slots_hold_for_reports_on_one_slot_each() -> None:
    """The engine keeps each slot's last report, and a snapshot has all of them."""
    node = Node("n1", spec_for(nodes=NodesSpec("local")), MagicMock(spec=Launcher), lambda: None, lambda _: None)
    node.attempts.update({f"n1/cpu{number}": MagicMock() for number in range(256)})

    def report(slot: str) -> None:
        sent = SlotReport.from_attempt(
            AttemptReport(1, Worker("", 0, WorkerState.RUNNING, last_line="x" * 200_000)), {}, {}
        )
        node._apply_report(msgspec.Raw(msgspec.msgpack.encode(Report({slot: sent}))))

    for _ in range(3):  # the last report of a slot counts once
        for number in range(20):
            report(f"n1/cpu{number}")
    with pytest.raises(GmgError, match=r"its agent reports too much: 4,\d+,\d+ bytes"):
        report("n1/cpu20")
    del node.attempts["n1/cpu0"]
    report("n1/cpu20")


@pytest.mark.parametrize("cause", StopCause)
async def test_a_stop_that_nobody_here_asked_for_is_a_failure(cause: StopCause) -> None:
    async with _attempt(Task((), {}, 0, 1)) as (attempt, running):
        attempt.apply_report(_report(attempt, Outcome(cause=cause), number=1))
        outcome = await running
        assert (outcome.cause, outcome.failure.reason) == (None, "stopped by n1")


async def test_an_agent_that_reads_nothing_is_connected_anew() -> None:
    node = Node("n1", spec_for(nodes=NodesSpec("local")), MagicMock(spec=Launcher), lambda: None, lambda _: None)
    node._client, node._connection = MagicMock(unread_bytes=1 << 20), MagicMock()
    node.check(time.monotonic(), delayed_s=0.0)
    node._connection.kill.assert_not_called()
    node._client.unread_bytes = 17 << 20
    node.check(time.monotonic(), delayed_s=0.0)
    node._connection.kill.assert_called_once_with()
