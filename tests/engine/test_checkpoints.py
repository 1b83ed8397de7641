"""Later attempts continue from the newest checkpoint of the earlier ones, if that is complete."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
from msgspec import structs

from gmg_tui.engine.attempts import attempt
from gmg_tui.engine.attempts.attempt import Task
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.model import (
    NO_ATTEMPT,
    Alert,
    AlertAction,
    Attempt,
    Checkpoint,
    DdpSpec,
    JobRecord,
    RestartMode,
    RunSpec,
    Severity,
    WorkerState,
    combine_ranks,
)
from gmg_tui.scripts.checkpoints import Trust, before_nan
from gmg_tui.session.protocol import Action
from tests.patience import alive, eventually

from .harness import program, running, spec_for, sweep_for

_TRUST = Trust()

_TORCH = "import os\ndef save(obj, f):\n    with open(f, 'wb') as file: file.write(obj)\n"
_SCRIPT = """
import os, sys, time
from torch.serialization import save
first = int(sys.argv[-1].rpartition("_")[2].partition(".")[0]) + 1 if "--resume" in sys.argv else 0
print("from", first, flush=True)
out = os.environ.get("GMG_JOB_NAME", "out")
os.makedirs(out, exist_ok=True)
rank = os.environ.get("RANK", "0")
if rank != "0":
    time.sleep(0 if first else 1000)
    sys.exit()
for step in range(first, 6):
    save(b"content", f"{out}/model_{step}.pt")
    print(f"Running at {1000 + step}.00 FPS", flush=True)
    if step == first + 2 and step < 5:
        os.kill(os.getpid(), 9)
"""


def script(tmp_path: Path, text: str = _SCRIPT) -> str:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/serialization.py").write_text(_TORCH)
    (tmp_path / "train.py").write_text(text)
    return str(tmp_path / "train.py")


def spec(path: str, **more: Any) -> RunSpec:
    resume = ("--resume", "{checkpoint}")
    settings: dict[str, Any] = {"restart": RestartMode.FAILURE, "max_restarts": 5, "resume_args": resume, "cpu": 1}
    return spec_for(script=path, cwd=str(Path(path).parent), **(settings | more))


async def test_a_killed_worker_continues_from_its_newest_checkpoint(tmp_path: Path) -> None:
    async with running(spec(script(tmp_path))) as run:
        worker = await run.until_state("cpu0", WorkerState.FINISHED)
        assert worker.attempt == 2
        assert worker.newest.continued_from == str(tmp_path / "out/model_2.pt")
        assert worker.newest.args == ("--resume", str(tmp_path / "out/model_2.pt"))
        newest = (await run.client.details("cpu0")).attempts[-1]
        assert [Path(each.path).name for each in newest.checkpoints] == [f"model_{step}.pt" for step in range(6)]
        assert worker.newest.checkpoints == newest.checkpoints[-1:]
        assert b"from 0\n" in run.output("cpu0")
        assert b"from 3\n" in run.output("cpu0")


async def test_a_truncated_checkpoint_is_passed_over(tmp_path: Path) -> None:
    cut = _SCRIPT.replace("os.kill(", "open(f'out/model_{step}.pt', 'w').close() or os.kill(")
    async with running(spec(script(tmp_path, cut))) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        assert b"from 2\n" in run.output("cpu0")


async def test_an_attempt_that_can_read_no_checkpoint_says_so(tmp_path: Path) -> None:
    gone = _SCRIPT.replace("os.kill(", "[os.remove(f'out/model_{each}.pt') for each in range(step + 1)] and os.kill(")
    async with running(spec(script(tmp_path, gone), max_restarts=1)) as run:
        worker = await run.until_state("cpu0", WorkerState.FAILED)
        (alert,) = (each for each in worker.alerts if each.kind == "checkpoint")
        assert alert.text == (
            f"it started from the beginning: {tmp_path}/out/model_2.pt is not on {socket.gethostname()}"
        )


async def test_an_attempt_waits_while_the_disk_with_the_checkpoints_is_away(tmp_path: Path) -> None:
    """From the start, the script would overwrite them once it is back."""
    leaves = _SCRIPT.replace('"out"', '"disk/out"').replace("os.kill(", "os.rename('disk', 'away/disk') or os.kill(")
    (tmp_path / "away").mkdir()
    async with running(spec(script(tmp_path, leaves))) as run:
        await run.until(lambda _: run.worker("cpu0").reason == "for the disk with the checkpoints")
        (tmp_path / "away/disk").rename(tmp_path / "disk")
        worker = await run.until_state("cpu0", WorkerState.FINISHED)
        assert worker.newest.continued_from == str(tmp_path / "disk/out/model_2.pt")
        assert run.output("cpu0").count(b"from 0\n") == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
async def test_code_that_another_user_makes_during_the_wait_for_the_checkpoints_is_not_run(tmp_path: Path) -> None:
    leaves = _SCRIPT.replace('"out"', '"disk/out"').replace("os.kill(", "os.rename('disk', 'away/disk') or os.kill(")
    (tmp_path / "away").mkdir()
    tmp_path.chmod(0o1777)
    async with running(spec(path := script(tmp_path, leaves), max_restarts=1)) as run:
        await run.until(lambda _: run.worker("cpu0").reason == "for the disk with the checkpoints")
        os.chown(path, 65534, -1)
        (tmp_path / "away/disk").rename(tmp_path / "disk")
        worker = await run.until_state("cpu0", WorkerState.FAILED)
        assert "train.py belongs to nobody" in (worker.reason or "")
        assert b"from 3\n" not in run.output("cpu0")


async def test_all_ranks_wait_for_the_disk_with_the_checkpoints_of_one(tmp_path: Path) -> None:
    leaves = _SCRIPT.replace('"out"', '"disk/out"').replace("os.kill(", "os.rename('disk', 'away/disk') or os.kill(")
    (tmp_path / "away").mkdir()
    async with running(spec(script(tmp_path, leaves), cpu=2, ddp=DdpSpec())) as run:
        waits = "for the disk with the checkpoints"
        await run.until(lambda _: all(run.worker(slot).reason == waits for slot in ("cpu0", "cpu1")))
        (tmp_path / "away/disk").rename(tmp_path / "disk")
        for slot in ("cpu0", "cpu1"):
            worker = await run.until_state(slot, WorkerState.FINISHED)
            assert worker.newest.continued_from == str(tmp_path / "disk/out/model_2.pt")


_NAN = """
import os, signal, sys, time
from torch.serialization import save
first = int(sys.argv[-1].rpartition("_")[2].partition(".")[0]) + 1 if "--resume" in sys.argv else 0
if os.environ.get("RANK", "0") != "0":
    signal.signal(signal.SIGTERM, lambda *_: time.sleep(0.5) or sys.exit(1))  # it ends last
    time.sleep(0 if first else 1000)
    sys.exit()
os.makedirs("out", exist_ok=True)
for step in range(first, 6):
    loss = "nan" if step >= 3 and not os.path.exists(f"out/seen-{first}") and first < 2 else 0.5
    save(b"content", f"out/model_{step}.pt")
    print(f"step {step} loss={loss}", flush=True)
    if loss == "nan":
        open(f"out/seen-{first}", "w").close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(1.0)  # the engine has read the line by then, also on a busy machine
        for later in (6, 7):
            save(b"content", f"out/model_{later}.pt")
        time.sleep(1000)
    time.sleep(0.1)
"""


@pytest.mark.parametrize("ddp", [None, DdpSpec()], ids=["worker", "group"])
async def test_after_nan_the_next_attempt_continues_from_before_it(tmp_path: Path, ddp: DdpSpec | None) -> None:
    on, cpu = {"nan": AlertAction.RESTART}, 1 if ddp is None else 2
    given = spec(script(tmp_path, _NAN), restart=RestartMode.NEVER, on=on, cpu=cpu, ddp=ddp, sigterm_wait_s=60.0)
    async with running(given) as run:
        worker = await run.until_state("cpu0", WorkerState.FINISHED)
        assert worker.attempt == 2
        assert worker.newest.continued_from == str(tmp_path / "out/model_3.pt")


_RENAMES = """
import os, sys, time
from torch.serialization import save
if sys.argv[-1].endswith("model_1.pt"):
    print("step 2 loss=nan", flush=True)
    time.sleep(1000)
if "--resume" in sys.argv:
    sys.exit()
for step in range(2):
    save(b"content", "model.tmp")
    os.rename("model.tmp", f"model_{step}.pt")
sys.exit(1)
"""


async def test_a_renamed_checkpoint_that_leads_to_nan_is_not_used_again(tmp_path: Path) -> None:
    async with running(spec(script(tmp_path, _RENAMES), on={"nan": AlertAction.RESTART})) as run:
        worker = await run.until_state("cpu0", WorkerState.FINISHED)
        assert worker.newest.continued_from == str(tmp_path / "model_0.pt")


async def test_a_job_whose_engine_was_killed_after_nan_continues_from_before_it(tmp_path: Path) -> None:
    what = program(script=script(tmp_path, _NAN), resume_args=("--resume", "{checkpoint}"))
    given = sweep_for([{}], what, cwd=str(tmp_path), cpu=1)
    async with running(given) as run:
        await run.until(lambda _: run.worker("cpu0").alert("nan"))
        await run.until(lambda _: run.worker("cpu0").newest.checkpoints[-1].path.endswith("7.pt"))
        run.process.kill()
    async with running(given) as run:
        await run.until_done()
        (job,) = (await run.jobs()).values()
    assert (job.state, job.last.continued_from) == (WorkerState.FINISHED, str(tmp_path / "out/model_3.pt"))


def test_a_checkpoint_that_leads_to_nan_is_not_used_again() -> None:
    saved = tuple(Checkpoint(f"/model_{number}.pt", float(number)) for number in range(4))
    nan = Alert("nan", Severity.ERROR, "loss NaN", 12.0)
    again = Attempt(2, started=10.0, checkpoints=saved, continued_from="/model_3.pt", alerts=(nan,))
    other_rank = structs.replace(again, alerts=())
    assert before_nan(again) == before_nan(again, other_rank) == saved[:3]
    more = structs.replace(again, checkpoints=(*saved, Checkpoint("/new.pt", 11.0), Checkpoint("/bad.pt", 12.5)))
    assert [each.path for each in before_nan(more)][-2:] == ["/model_3.pt", "/new.pt"]
    assert before_nan(structs.replace(more, alerts=())) == more.checkpoints
    assert before_nan(combine_ranks([other_rank, again])) == saved[:3], "a job's record has what any rank has seen"
    same_moment = structs.replace(again, checkpoints=(*saved, Checkpoint("/just.pt", 12.0)))
    assert before_nan(same_moment)[-1].path == "/just.pt"  # saved before the line was read, to the millisecond


async def test_a_restart_by_key_continues_and_without_a_checkpoint_the_arguments_stay(tmp_path: Path) -> None:
    waits = _SCRIPT.replace("os.kill(os.getpid(), 9)", "time.sleep(1000)")
    async with running(spec(script(tmp_path, waits))) as run:
        worker = await run.until_state("cpu0", WorkerState.RUNNING)
        assert worker.newest.args == ()
        await run.until(lambda _: any("model_2" in each.path for each in run.worker("cpu0").newest.checkpoints))
        await run.client.act(Action.RESTART, "cpu0")
        worker = await run.until_state("cpu0", WorkerState.FINISHED)
        assert worker.newest.args[-1].endswith("model_2.pt")


async def test_all_ranks_of_a_group_continue_from_one_ranks_checkpoint(tmp_path: Path) -> None:
    async with running(spec(script(tmp_path), cpu=2, ddp=DdpSpec())) as run:
        workers = [await run.until_state(slot, WorkerState.FINISHED) for slot in ("cpu0", "cpu1")]
        assert workers[0].newest.args == workers[1].newest.args
        assert workers[0].newest.args[0] == "--resume"


async def test_a_sweep_continues_each_job_also_with_another_engine(tmp_path: Path) -> None:
    path = script(tmp_path)
    given = sweep_for(
        [{"x": 1}, {"x": 2}], program(script=path, resume_args=("--resume", "{checkpoint}")), cwd=str(tmp_path), cpu=1
    )
    async with running(given) as run:
        await run.until_done()
        jobs = await run.jobs()
    assert [job.state for job in jobs.values()] == [WorkerState.FAILED] * 2
    assert given.sweep is not None
    async with running(structs.replace(given, sweep=structs.replace(given.sweep, retry_failed=True))) as run:
        await run.until_done()
        jobs = await run.jobs()
    for number, job in enumerate(jobs.values(), 1):
        assert (job.state, job.last.continued_from) == (WorkerState.FINISHED, f"{tmp_path}/job-{number}/model_2.pt")


_LAST_MOMENT = """
import os, sys, time
from torch.serialization import save
if "--resume" in sys.argv:
    sys.exit()
save(b"content", "model_1.pt")
print("iteration 1/9", flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:  # the watchdog ends it, once its engine is killed
    save(b"content", "model_2.pt")
"""


async def test_a_job_continues_from_a_checkpoint_saved_after_its_engine_was_killed(tmp_path: Path) -> None:
    given = sweep_for(
        [{}],
        program(script=script(tmp_path, _LAST_MOMENT), resume_args=("--resume", "{checkpoint}")),
        cwd=str(tmp_path),
        cpu=1,
    )
    async with running(given) as run:
        await run.until(lambda _: run.worker("cpu0").newest.checkpoints)
        worker = psutil.Process(await run.pid("cpu0"))
        run.process.kill()
        await eventually(lambda: not alive(worker))
    assert (tmp_path / "model_2.pt").exists()
    async with running(spec_for("--lines", "1", name="another")) as run:  # which leaves alone what is not its own
        await run.until_state("cpu0", WorkerState.FINISHED)
    async with running(given) as run:
        await run.until_done()
        (job,) = (await run.jobs()).values()
    assert (job.state, job.last.continued_from) == (WorkerState.FINISHED, str(tmp_path / "model_2.pt"))


def test_an_edited_job_whose_model_does_not_fit_the_originals_checkpoints_begins_anew() -> None:
    inherited, own = Checkpoint("/model_5.pt", 5.0), Checkpoint("/model_6.pt", 11.0)
    misfit = Attempt(
        1, started=10.0, ended=11.0, reason="RuntimeError: size mismatch for fc.weight", checkpoints=(inherited,)
    )
    job = JobRecord(2, "job-1-edit2", edited_from=1, args=("--hidden", "256"), started=10.0, last=misfit)

    def checkpoints_of(job: JobRecord, **fields: object) -> tuple[Checkpoint, ...]:
        return Task.of_job(spec_for(), structs.replace(job, last=structs.replace(job.last, **fields)), 2).checkpoints

    assert checkpoints_of(job) == ()
    assert checkpoints_of(job, reason="SIGKILL") == (inherited,)
    assert checkpoints_of(job, checkpoints=(inherited, own)) == (inherited, own)
    assert checkpoints_of(structs.replace(job, edited_from=None)) == (inherited,)


def _reported(path: str, size: int | None, inode: int, mtime_s: float, at: float, node: str = "n1") -> Checkpoint:
    return Checkpoint(path, 50.0, size, inode, round(1e9 * mtime_s), node=node, reported=at)


_SAVED = _reported("/runs/2/model.pt", 9, 500, 50.000_000_1, at=51.0)


@pytest.mark.parametrize(
    ("reported", "is_used"),
    [
        (_reported("/runs/1/model.pt", 9, 501, 60.0, at=61.0), True),
        (_reported("/runs/1/model.pt", 9, 500, 60.0, at=61.0), True),  # the inode of a removed file
        (_reported("/runs/1/model.pt", 9, 500, 50.000_000_1, at=61.0), False),
        (_reported("/runs/2/model.pt", 9, 501, 50.000_000_1, at=61.0), False),
        (_reported("/runs/1/model.pt", None, 500, 0.0, at=61.0), False),
        (_reported("/runs/2/model.pt", 9, 500, 50.000_000_1, at=50.5), True),  # the other one is the lie
        (_reported("/runs/2/model.pt", 9, 500, 50.000_000_1, at=61.0, node="n2"), True),  # it runs there again
    ],
)
def test_a_job_does_not_continue_from_another_job_s_checkpoint_that_a_node_has_reported_for_it(
    reported: Checkpoint, is_used: bool
) -> None:
    jobs = [
        JobRecord(1, "1", last=structs.replace(NO_ATTEMPT, checkpoints=(reported,))),
        JobRecord(2, "2", last=structs.replace(NO_ATTEMPT, checkpoints=(_SAVED,))),
        JobRecord(3, "1-edit3", last=structs.replace(NO_ATTEMPT, checkpoints=(reported,)), edited_from=1),
    ]
    files = Recorder(*[MagicMock()] * 5).reported_files({job.number: job for job in jobs})
    used = Task.of_job(sweep_for([]), jobs[0], 2).without_others_files(1, {"n2"}, lambda: files)
    assert used.checkpoints == ((reported,) if is_used else ())
    left_out = f"{reported.path}, reported by n1, is another job's file: not used"
    assert used.left_out == (None if is_used else left_out)


def _is_used(reported: Checkpoint, of_another: Checkpoint) -> bool:
    files = {key: [(2, of_another)] for key in (of_another.inode, of_another.mtime_ns)}
    task = replace(Task((), {}, 0, 1), checkpoints=(reported,))
    return task.without_others_files(1, {"n2"}, lambda: files) == task


def test_a_guess_of_what_a_job_will_save_does_not_keep_it_from_continuing() -> None:
    saved = _reported("/runs/1/model.pt", 9, 500, 50.0, at=51.0)
    assert _is_used(saved, _reported("/runs/1/model.pt", 9, 500, 1e9, at=10.0))
    assert _is_used(saved, _reported("/x", 9, 500, 9.0, at=10.0))


def test_the_files_that_two_jobs_have_saved_at_the_same_time_are_told_apart() -> None:
    reported = _reported("/runs/1/model.pt", 9, 501, 50.0, at=61.0)
    assert _is_used(reported, _reported("/runs/2/model.pt", 9, 500, 50.0, at=51.0))
    assert not _is_used(reported, _reported("/runs/1/model.pt", 9, 1, 50.0, at=51.0))


def test_a_node_that_reports_any_number_of_files_with_one_inode_delays_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lies = tuple(_reported(f"/{number}.pt", None, 0, 0.0, at=10.0) for number in range(50))
    lies += tuple(_reported(f"/{number}.pt", None, 7, number, at=10.0) for number in range(1000))
    jobs = {2: JobRecord(2, "2", last=structs.replace(NO_ATTEMPT, checkpoints=lies))}
    files = Recorder(*[MagicMock()] * 5).reported_files(jobs)
    assert 0 not in files
    compared = list[Checkpoint]()
    monkeypatch.setattr(attempt, "_is_file_of", lambda other, _: compared.append(other))
    task = replace(Task((), {}, 0, 1), checkpoints=(_reported("/runs/1/model.pt", None, 7, 0.0, at=51.0),))
    assert task.without_others_files(1, {"n2"}, lambda: files) == task
    assert len(compared) == 100
