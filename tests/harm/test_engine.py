"""The engine is killed, stopped and ended; its workers are restarted again and again."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.model import AlertAction, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from tests.engine.harness import Running, running, spec_for
from tests.patience import alive, eventually
from tests.workers import texts

from .sessions import steps_in, written

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING


async def test_a_killed_engine_is_listed_as_lost_once_its_workers_have_ended(tmp_path: Path) -> None:
    spec = spec_for(*NEVER, "--ignore-sigint", "--fork-grandchild", str(tmp_path / "{slot}"), cpu=2)
    async with running(spec) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        processes = [psutil.Process(worker.pid) for worker in run.snapshot.workers if worker.pid]
        processes += [psutil.Process(int((tmp_path / slot).read_text())) for slot in ("cpu0", "cpu1")]
        run.process.kill()
        await run.process.wait()
        await eventually(lambda: sessions.find(spec.name, running=False).state == "lost")  # the watchdog is done
        assert [process for process in processes if alive(process)] == []
        with pytest.raises(GmgError):
            await EngineClient.connect(Path(spec.socket))
        assert "WATCHDOG" in run.log()


@pytest.mark.slow
async def test_a_stopped_and_continued_engine_loses_nothing_and_marks_no_worker_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine did not see while it was stopped does not count as silence of its workers."""
    stuck_after_s, lines_s = 2.0, 100
    stamps = tmp_path / "stamps"
    args = ("--plain", "--phase-s", "0", "--lines", "0", "--rate", str(lines_s), "--stamp", str(stamps))
    async with running(spec_for(*args, stuck_after_s=stuck_after_s, on={"stuck": AlertAction.RESTART})) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 20)
        engine = psutil.Process(run.process.pid)
        engine.suspend()
        printed = written(stamps)
        await eventually(lambda: written(stamps) > printed + 2 * stuck_after_s * lines_s)  # the worker goes on
        with monkeypatch.context() as patch:
            patch.setattr("gmg_tui.session.client.ANSWER_TIMEOUT_S", 1.0)
            with pytest.raises(GmgError, match="stopped"):
                await EngineClient.connect(Path(run.spec.socket))
        printed = written(stamps)
        engine.resume()
        stuck: set[str] = set()

        def caught_up(_: object) -> bool:
            stuck.update(texts(run.worker("cpu0").alerts))
            return run.worker("cpu0").log_lines > printed + 100

        await run.until(caught_up)
        assert stuck == set()
        assert run.worker("cpu0").attempt == 1
        await run.client.act(Action.KILL, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        steps = steps_in(run.output("cpu0"))
        assert steps == list(range(len(steps)))
        assert len(steps) in {written(stamps), written(stamps) + 1}


async def _restarted(run: Running, first: int, last: int) -> None:
    for attempt in range(first, last + 1):
        await run.client.act(Action.RESTART, "cpu0")
        await run.until_attempt("cpu0", attempt)


@pytest.mark.slow
async def test_many_restarts_leave_neither_memory_nor_descriptors_nor_processes_behind(tmp_path: Path) -> None:
    count = 40
    args = (*NEVER, "--phase-s", "0", "--garbage", "--long-line", "500000", "--fork-grandchild", str(tmp_path / "pid"))
    async with running(spec_for(*args, "--ignore-sigint", sigint_wait_s=0.05, sigterm_wait_s=0.5)) as run:
        await run.until_state("cpu0", RUNNING)
        engine = psutil.Process(run.process.pid)
        await _restarted(run, 2, count // 3)
        descriptors, memory = engine.num_fds(), engine.memory_info().rss
        await _restarted(run, count // 3 + 1, count)
        await run.until_state("cpu0", RUNNING)
        await eventually(lambda: engine.num_fds() <= descriptors + 2)
        assert engine.memory_info().rss - memory < 8 << 20
        # The worker, what it left in a session of its own, and the watchdog.
        await eventually(lambda: len(engine.children(recursive=True)) == 3)
        assert len(re.findall(rb"gmg-tui: attempt \d+", run.output("cpu0"))) == count - 1


async def test_a_second_signal_kills_workers_that_ignore_the_first() -> None:
    async with running(spec_for(*NEVER, "--ignore-sigint", "--ignore-sigterm", cpu=2, sigint_wait_s=60.0)) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        os.kill(run.process.pid, signal.SIGTERM)
        await run.until(lambda s: all(worker.state is WorkerState.STOPPING for worker in s.workers))
        os.kill(run.process.pid, signal.SIGTERM)
        assert await run.process.wait() == 0
        assert {worker.state for worker in run.record().workers} == {"stopped"}


async def test_the_engine_ignores_sighup() -> None:
    async with running(spec_for(*NEVER)) as run:
        before = await run.until_state("cpu0", RUNNING)
        os.kill(run.process.pid, signal.SIGHUP)
        await run.until(lambda _: run.worker("cpu0").log_lines > before.log_lines + 20)
        assert run.worker("cpu0").attempt == 1


async def test_workers_do_not_inherit_ignored_signals() -> None:
    """As `gmg-tui … &` in a script ignores SIGINT, and `nohup` SIGHUP; both are inherited."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        async with running(spec_for(*NEVER, cpu=2, sigint_wait_s=20.0)) as run:
            await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
            await run.client.act(Action.STOP, "cpu0")
            assert (await run.until_state("cpu0", WorkerState.STOPPED)).newest.exit_code == -signal.SIGINT
            assert b"caching compiled kernels" in run.output("cpu0")
            os.kill(await run.pid("cpu1"), signal.SIGHUP)
            assert (await run.until_state("cpu1", WorkerState.FAILED)).newest.exit_code == -signal.SIGHUP
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_a_killed_watchdog_is_replaced_and_knows_the_workers() -> None:
    async with running(spec_for(*NEVER, cpu=2)) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        workers = [psutil.Process(worker.pid) for worker in run.snapshot.workers if worker.pid]
        engine = psutil.Process(run.process.pid)

        def watchdogs() -> list[psutil.Process]:
            return [child for child in engine.children() if child not in workers and alive(child)]

        (watchdog,) = watchdogs()
        watchdog.kill()
        await eventually(lambda: watchdogs() and watchdog not in watchdogs())
        assert {worker.attempt for worker in run.snapshot.workers} == {1}
        run.process.kill()
        await run.process.wait()
        await eventually(lambda: not any(map(alive, workers)))


async def test_an_engine_started_by_a_worker_is_not_part_of_the_outer_session() -> None:
    """Its environment names the outer session's slot, as those of the worker's other processes do."""
    outer = {"GMG_SLOT": "cpu0", "GMG_SESSION": "outer", "GMG_SESSION_ID": "0" * 16}
    async with running(spec_for("--lines", "3"), outer) as run:
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert finished.alerts == ()
    assert "watchdog has ended" not in run.log()
