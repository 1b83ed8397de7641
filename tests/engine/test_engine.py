"""The engine as a process, real workers under it, and a client that looks on."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.machine.cgroup import usable_cpus
from gmg_tui.model import RunSpec, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.caches import PHASE_TIMES
from gmg_tui.session import sessions_folder
from gmg_tui.session.protocol import Action
from tests.workers import texts

from .harness import running, spawn, spec_for

NEVER = ("--lines", "0")


async def test_each_worker_gets_its_own_environment_and_arguments(tmp_path: Path) -> None:
    spec = spec_for(
        "--print-env", f"{tmp_path}/{{slot}}.json", "--seed={seed}", "--device", "{{i}}", "--lines", "1",
        cpu=2, env={"OUT": "run-{i}-of-{n}"},
    )  # fmt: skip
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        for index, slot in enumerate(("cpu0", "cpu1")):
            reply = json.loads((tmp_path / f"{slot}.json").read_text())
            env = reply["env"]
            assert env["CUDA_VISIBLE_DEVICES"] == ""
            assert env["PYTHONUNBUFFERED"] == "1"
            assert env["OUT"] == f"run-{index}-of-2"
            assert env["GMG_SESSION"] == spec.name
            assert env["GMG_SLOT"] == slot
            assert env["GMG_WORKER_INDEX"] == str(index)
            assert env["GMG_NUM_WORKERS"] == "2"
            assert env["GMG_ATTEMPT"] == "1"
            assert int(env["OMP_NUM_THREADS"]) == max(1, usable_cpus() // 2)
            assert "{i}" in reply["argv"]


async def test_restart_stop_and_kill_affect_only_their_worker() -> None:
    async with running(spec_for(*NEVER, cpu=3)) as run:
        before = await run.until(lambda snapshot: all(w.state is WorkerState.RUNNING for w in snapshot.workers))
        await run.client.act(Action.RESTART, "cpu1")
        await run.until(lambda snapshot: run.worker("cpu1").attempt == 2)
        await run.until_state("cpu1", WorkerState.RUNNING)
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert stopped.newest.exit_code == -signal.SIGINT
        await run.client.act(Action.KILL, "cpu2")
        killed = await run.until_state("cpu2", WorkerState.STOPPED)
        assert killed.newest.exit_code == -signal.SIGKILL
        assert run.worker("cpu1").attempt == 2
        assert run.worker("cpu0").attempt == run.worker("cpu2").attempt == 1
        await run.client.act(Action.RESTART, "cpu0")
        again = await run.until(lambda snapshot: run.worker("cpu0").state is WorkerState.RUNNING)
        assert run.worker("cpu0").attempt == 2
        assert b"attempt 2" in run.output("cpu0")
        assert not {w.pid for w in before.workers} & {w.pid for w in again.workers if w.pid}


async def test_edit_restarts_with_other_arguments() -> None:
    async with running(spec_for("-B", "16", *NEVER, "--rate", "100", cpu=2)) as run:
        await run.until(lambda snapshot: all(w.fps and w.fps.mean for w in snapshot.workers))
        await run.client.edit(("cpu1",), ("-B", "32", *NEVER, "--rate", "100"), {"MORE": "{slot}"})
        await run.until(lambda snapshot: run.worker("cpu1").newest.n_envs == 32)
        worker = run.worker("cpu1")
        assert worker.newest.n_envs == 32
        assert run.worker("cpu0").attempt == 1
        details = await run.client.details("cpu1")
        assert details.env["MORE"] == "cpu1"
        assert details.extra_env == {"MORE": "{slot}"}
        assert [attempt.args[1] for attempt in details.attempts] == ["16", "32"]
        assert details.attempts[0].state is WorkerState.STOPPED


@pytest.mark.parametrize(("args", "env"), [(("a\0b",), {}), ((), {"A=B": "x"}), ((), {"A": "x\0"})])
async def test_settings_that_no_program_can_be_given_fail_the_attempt(
    args: tuple[str, ...], env: dict[str, str]
) -> None:
    async with running(spec_for(*NEVER, cpu=1)) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        await run.client.edit(("cpu0",), args, env)
        failed = await run.until_state("cpu0", WorkerState.FAILED)
        assert "cannot start" in (failed.reason or "")
        assert not [alert for alert in run.snapshot.alerts if alert.kind == "internal"]


async def test_a_stop_cancels_a_pending_restart() -> None:
    async with running(spec_for(*NEVER, "--ignore-sigint", cpu=1)) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        await run.client.act(Action.RESTART, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPING)
        await run.client.act(Action.STOP, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        assert run.worker("cpu0").attempt == 1


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"python": "/nowhere/python"}, "/nowhere/python"),
        ({"cwd": "/nowhere"}, "/nowhere is missing"),
    ],
)
async def test_a_script_that_cannot_start_is_a_failure_without_a_traceback(spec: dict[str, Any], word: str) -> None:
    async with running(spec_for(**spec)) as run:
        failed = await run.until_state("cpu0", WorkerState.FAILED)
        assert failed.reason
        assert word in failed.reason
        assert "Traceback" not in run.log()


async def test_a_late_client_gets_the_lines_and_the_history() -> None:
    async with running(spec_for(*NEVER, "--rate", "100")) as run:
        await run.until(lambda snapshot: run.worker("cpu0").log_lines > 50)
        await run.client.watch(lines=True)
        await run.until_lines("cpu0", lambda lines: len(lines) > 60)
        assert sorted(run.lines["cpu0"]) == list(range(len(run.lines["cpu0"])))
        series = await run.client.series("cpu0")
        assert len(series.fps) == len(series.power_w) > 0


async def test_end_stops_all_workers_and_the_engine_exits_with_its_last_client() -> None:
    async with running(spec_for(*NEVER, cpu=2)) as run:
        await run.until(lambda snapshot: all(w.state is WorkerState.RUNNING for w in snapshot.workers))
        await run.client.end()
        await run.until(lambda snapshot: snapshot.ended)
        with pytest.raises(GmgError, match="being stopped"):
            await run.client.act(Action.RESTART, "cpu0")
        await run.leave()
        assert await run.process.wait() == 0
        assert not Path(run.spec.socket).exists()


async def test_phase_times_are_available_in_the_next_run(tmp_path: Path) -> None:
    # With kernels in the cache, which Genesis may have left on this machine, the second start would be a warm one.
    cold = {"QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "none")}
    async with running(spec_for("--lines", "3", "--phase-s", "0.3", env=cold)) as run:
        await run.until(lambda snapshot: snapshot.ended)
    assert (sessions_folder().parent / PHASE_TIMES).exists()
    async with running(spec_for("--lines", "3", "--phase-s", "600", env=cold)) as run:
        await run.until(lambda snapshot: run.worker("cpu0").phase_usual_s is not None)


async def test_an_engine_that_cannot_start_reports_the_reason_in_one_line() -> None:
    process, reply = await spawn(spec_for(cpu=None))
    assert process.returncode == 0
    assert reply["ok"] is False
    assert "--cpu" in reply["error"]
    assert "\n" not in reply["error"]


_STEP = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "OMPI_COMM_WORLD_RANK": "3"}


def _printing(tmp_path: Path, **more: Any) -> RunSpec:
    """A run of a script that prints the names of the outer step's variables that it has."""
    script = tmp_path / "tell.py"
    script.write_text(
        f"import os\nprint('got', *(f'{{k}}={{os.environ[k]}}' for k in {list(_STEP)} if k in os.environ))"
    )
    return spec_for(script=str(script), **more)


async def test_a_worker_does_not_inherit_the_task_variables_of_the_outer_step(tmp_path: Path) -> None:
    async with running(_printing(tmp_path, env={"SLURM_PROCID": "0"}), _STEP) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert b"got SLURM_JOB_ID=77 SLURM_PROCID=0\n" in run.output("cpu0")
        assert (await run.client.details("cpu0")).unset == ("OMPI_COMM_WORLD_RANK", "SLURM_NTASKS")


async def test_a_stored_pattern_that_re2_does_not_accept_is_reported_and_ignored() -> None:
    async with running(spec_for("--lines", "3", patterns=(r"(?<=at )(?P<fps>\d+)",))) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert run.worker("cpu0").state is WorkerState.FINISHED
        assert any("RE2 has no look-around" in note for note in texts(run.snapshot.alerts))


@pytest.mark.process
async def test_a_git_that_hangs_costs_the_session_only_its_commit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    (tmp_path / "sitecustomize.py").write_text(
        "from pathlib import Path\nfrom gmg_tui.scripts import interpreter\n"
        f"interpreter.commit_of = lambda folder: Path({str(tmp_path / 'never')!r}).read_text()\n"
    )
    async with running(spec_for("--lines", "1"), {"PYTHONPATH": str(tmp_path)}) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert run.record().session.commit is None
