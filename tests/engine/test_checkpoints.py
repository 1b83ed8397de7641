"""Later attempts continue from the newest checkpoint of the earlier ones, if that is complete."""

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import structs

from gmg_tui.machine import ownership
from gmg_tui.model import (
    NO_ATTEMPT,
    Alert,
    AlertAction,
    Attempt,
    Checkpoint,
    DdpSpec,
    RestartMode,
    RunSpec,
    Severity,
    WorkerState,
    combine_ranks,
    merge_checkpoints,
)
from gmg_tui.model.attempt import add_checkpoints
from gmg_tui.scripts.checkpoints import MAX_CHECKPOINTS, Trust, before_nan, newest_intact
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


def test_no_rank_pushes_out_the_checkpoints_of_the_others() -> None:
    saved = tuple(Checkpoint(f"/{number}", number) for number in range(MAX_CHECKPOINTS))
    lies = tuple(Checkpoint(f"/lie/{number}", 1e6 + number) for number in range(MAX_CHECKPOINTS))
    again = (Checkpoint("/0", 2e6),)
    ranks = [structs.replace(NO_ATTEMPT, number=1, checkpoints=files) for files in (saved, lies)]
    newest = combine_ranks([*ranks, structs.replace(NO_ATTEMPT, number=1, checkpoints=again)]).checkpoints[-1]
    assert newest == again[0]
    assert set(before_nan(*ranks)) == set(combine_ranks(ranks).checkpoints) == {*saved, *lies}


def test_the_ledger_keeps_the_newest_of_each_path() -> None:
    many = [Checkpoint(f"/{number}", number) for number in range(30)]
    kept = merge_checkpoints(
        many, [Checkpoint("/latest", 35.0), Checkpoint("/latest", 36.0), Checkpoint("/29", 40.0)], limit=MAX_CHECKPOINTS
    )
    assert len(kept) == MAX_CHECKPOINTS
    assert [(each.path, each.saved) for each in kept[-2:]] == [("/latest", 36.0), ("/29", 40.0)]
    set_back = [Checkpoint("/before", 40.0), Checkpoint("/after", 30.0)]
    assert merge_checkpoints(set_back)[-1].path == "/after", "the system clock has been set back in between"
    known: tuple[Checkpoint, ...] = ()
    for number in range(40):
        known = add_checkpoints(known, [Checkpoint(f"/{number}", 5000.0 + number - 3600.0 * (number > 20))], limit=20)
    assert [each.path for each in known] == [f"/{number}" for number in range(20, 40)]


def test_no_node_pushes_out_the_checkpoints_that_others_have_saved() -> None:
    own = [Checkpoint(f"/{number}", number) for number in range(30)]
    theirs = [Checkpoint(f"/{number}", 100.0 + number, node="n1") for number in range(10)]
    lies = [Checkpoint(f"/lie/{number}", 200.0 + number, node="evil") for number in range(200)]
    assert {*own, *theirs} < {*merge_checkpoints(own, theirs, lies)}
    again = [structs.replace(each, saved=300.0, node="evil") for each in own]
    assert {*own} < {*merge_checkpoints(merge_checkpoints(own, again), lies)}


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_renamed_file_is_found_and_an_export_comes_last(tmp_path: Path, is_renamed: bool) -> None:

    state, export = tmp_path / "state.tmp", tmp_path / "policy.pt"
    state.write_bytes(b"state")
    export.write_bytes(b"policy")
    saved = (
        Checkpoint(str(state), 1.0, 5, state.stat().st_ino),
        Checkpoint(str(export), 2.0, 6, export.stat().st_ino, is_export=True),
    )
    if is_renamed:
        for number in range(12_000):  # as by another user in a folder of all users
            os.link(export, tmp_path / str(number))
        state.rename(tmp_path / "state.pt")
    found = newest_intact(saved, _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path == str(tmp_path / ("state.pt" if is_renamed else "state.tmp"))
    (tmp_path / "state.pt").unlink(missing_ok=True)
    state.unlink(missing_ok=True)
    assert isinstance(found := newest_intact(saved, _TRUST), Checkpoint)
    assert found.is_export
    export.write_bytes(b"PK but no zip"[:6])
    assert newest_intact(saved, _TRUST) == f"it started from the beginning: {export} is incomplete"


def test_a_file_that_the_script_was_replacing_is_found_under_its_final_name(tmp_path: Path) -> None:
    path, final = tmp_path / "model.tmp", tmp_path / "model.pt"
    path.write_bytes(b"state")
    written = path.stat()
    checkpoint = Checkpoint(str(path), 1.0, 5, written.st_ino, written.st_mtime_ns)
    path.rename(final)
    path.write_bytes(b"sta")  # the process was killed
    assert isinstance(found := newest_intact((checkpoint,), _TRUST), Checkpoint)
    assert found.path == str(final)
    os.utime(final, ns=(0, written.st_mtime_ns + 1))  # another file may get a removed one's inode number
    assert _reason((checkpoint,)).endswith("is incomplete")


def test_files_saved_under_one_name_are_told_apart(tmp_path: Path) -> None:
    path, saved, nan = tmp_path / "model.tmp", list[Checkpoint](), Alert("nan", Severity.WARNING, "loss is NaN", 2.5)
    for number in range(1, 5):
        path.write_bytes(b"state")
        written = path.stat()
        saved.append(Checkpoint(str(path), float(number), 5, written.st_ino, written.st_mtime_ns))
        path.rename(tmp_path / f"model_{number}.pt")
    attempt = structs.replace(NO_ATTEMPT, started=0.5, checkpoints=merge_checkpoints(saved), alerts=(nan,))
    usable = before_nan(attempt)
    for number in (2, 1):
        found = newest_intact(usable, _TRUST)
        assert isinstance(found, Checkpoint)
        assert found.path == str(tmp_path / f"model_{number}.pt")
        Path(found.path).unlink()
    path.write_bytes(b"later")
    assert _reason(usable) == "was replaced", "it may be the one that leads to NaN"
    found = newest_intact(saved, _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path.endswith("_4.pt")


def test_many_files_saved_under_one_name_or_exported_do_not_crowd_out_others() -> None:
    many = [Checkpoint("/model.tmp", float(number), inode=number) for number in range(1, 200)]
    exports = [Checkpoint(f"/{number}.jit", float(number), is_export=True) for number in range(1, 200)]
    kept = merge_checkpoints([Checkpoint("/best.pt", 0.0)], many, exports, limit=MAX_CHECKPOINTS)
    assert [checkpoint.inode for checkpoint in kept if not checkpoint.is_export] == [0, *range(190, 200)]
    assert sum(checkpoint.is_export for checkpoint in kept) == 5


def test_a_file_that_was_there_before_is_no_checkpoint_unless_it_is_the_one_that_was_saved(tmp_path: Path) -> None:
    """A node could name any file of another machine, and its job would overwrite that there."""
    path = tmp_path / "thesis.pt"
    path.write_bytes(b"weeks of work")
    written = path.stat()
    checkpoint = Checkpoint(str(path), written.st_mtime + 3600.0)
    assert _reason((checkpoint,)).endswith("is another file, written earlier")
    assert not _reason((structs.replace(checkpoint, inode=written.st_ino),))
    assert not _reason((structs.replace(checkpoint, saved=written.st_mtime + 60.0),)), "clocks differ"


def test_a_file_that_all_users_can_change_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"state")
    for mode, reason in ((0o666, "can be changed by all users"), (0o664, ""), (0o644, "")):
        path.chmod(mode)
        assert _reason((Checkpoint(str(path), 1.0),)) == reason


def test_a_pipe_is_not_opened_to_see_whether_it_is_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert _reason((Checkpoint(str(path), 1.0),)).endswith("is not a file")
    with pytest.raises(OSError, match="No such device or address"):
        os.open(path, os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_nothing_continues_from_a_file_of_another_user(tmp_path: Path) -> None:
    planted = tmp_path / "model_2.pt"
    planted.write_bytes(b"state")
    saved = (Checkpoint(str(planted), 1.0, 5, planted.stat().st_ino),)
    os.chown(planted, 1, 1)
    for mode in (0o1777, 0o777, 0o775, 0o755):
        tmp_path.chmod(mode)
        assert _reason(saved) == "belongs to daemon"
    os.chown(planted, 65534, -1)
    for mode in (0o777, 0o1777, 0o2775):
        tmp_path.chmod(mode)
        assert _reason(saved) == ("belongs to nobody" if mode != 0o2775 else "")
    assert not _reason(saved), "root's own on a disk that maps root to nobody"
    theirs = tmp_path / "theirs"
    theirs.symlink_to(tmp_path)
    linked = (structs.replace(saved[0], path=str(theirs / planted.name)),)
    assert not _reason(linked)
    os.lchown(theirs, 1, 1)
    assert _reason(linked) == f"could be replaced: {theirs} belongs to daemon"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_nothing_continues_from_a_path_that_another_user_can_lead_elsewhere(tmp_path: Path) -> None:
    """The kernel follows a link before it goes up; `/proc/self` is another process for the script that loads the file."""
    (saved := tmp_path / "model_2.pt").write_bytes(b"state")
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    (theirs / "inner").mkdir(parents=True)
    (theirs / saved.name).symlink_to(saved)
    link.symlink_to(theirs / "inner")
    os.chown(theirs, 1, -1)
    assert not _reason((Checkpoint(str(theirs / ".." / saved.name), 1.0),), Trust((str(theirs),)))
    assert (
        _reason((Checkpoint(str(link / ".." / saved.name), 1.0),)) == f"could be replaced: {theirs} belongs to daemon"
    )
    assert _reason((Checkpoint(f"/proc/self/root{saved}", 1.0),)).startswith("could be replaced: /proc")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_who_owns_a_folder_on_the_way_could_replace_a_checkpoint(tmp_path: Path) -> None:
    """Owners of a group's folder, and of what runs, are trusted: a lab's shared disk, and a container that runs as root."""
    folder = tmp_path / "theirs"
    saved = folder / "runs" / "model_2.pt"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"state")
    os.chown(folder, 1, os.getegid())
    checkpoints = (Checkpoint(str(saved), 1.0),)
    for mode, doubted in ((0o1777, True), (0o755, True), (0o2775, False)):
        folder.chmod(mode)
        assert bool(_reason(checkpoints)) is doubted
    tmp_path.chmod(0o1777)
    assert _reason(checkpoints) == f"could be replaced: {folder} belongs to daemon"
    folder.chmod(0o755)
    os.chown(saved.parent, 1, os.getegid())
    saved.parent.chmod(0o2775)  # the group's, but inside a folder of one member in a folder of all users
    assert _reason(checkpoints) == f"could be replaced: {folder} belongs to daemon"
    os.chown(saved.parent, 0, 0)
    assert not _reason(checkpoints, Trust((str(folder / "train.py"),)))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_in_a_user_namespace_only_root_is_trusted_of_the_users_unknown_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a rootless container, the files of root and of all other users seem to be nobody's."""
    monkeypatch.setattr(ownership, "_user_map", lambda: [[1000, 1000, 1]])
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    saved = folder / "model_2.pt"
    saved.write_bytes(b"state")
    checkpoints, run = (Checkpoint(str(saved), 1.0),), Trust((str(tmp_path / "runs" / "train.py"),))
    os.chown(folder.parent, 65534, -1)
    for trust in (Trust(), run):
        assert not _reason(checkpoints, trust)
        tmp_path.chmod(0o1777)
        assert _reason(checkpoints, trust) == f"could be replaced: {folder.parent} belongs to nobody"
        tmp_path.chmod(0o755)
    os.chown(saved, 65534, -1)
    assert _reason(checkpoints, run) == "belongs to nobody"
    monkeypatch.setattr(
        ownership, "_user_map", lambda: [[0, 1000, 1], [1, 100000, 65536]]
    )  # as Podman's, with a nobody
    assert _reason(checkpoints, run) == "belongs to nobody"
    os.chown(saved, 0, -1)
    assert _reason(checkpoints, run) == f"could be replaced: {folder.parent} belongs to nobody"
    monkeypatch.setattr(ownership, "_user_map", lambda: [[0, 0, 2**32 - 1]])
    assert not _reason(checkpoints, run)


def test_nothing_continues_from_a_log_even_in_a_copy_of_its_session(tmp_path: Path) -> None:
    """On the session's machine, a node chooses the bytes of its workers' logs, and may report them as checkpoints."""
    log = tmp_path / "backup" / "sim-1" / "logs" / "n1" / "gpu0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"a pickle")
    saved, trust = (Checkpoint(str(log), 1.0),), Trust(marks=("session.json", "engine.log"))
    assert not _reason(saved, trust)
    for mark in trust.marks:
        (tmp_path / "backup" / "sim-1" / mark).touch()
    assert "is in a session's folder" in _reason(saved, trust)
    if os.getuid() == 0:  # another user makes any shared folder above look like a session's
        os.chown(tmp_path / "backup" / "sim-1" / trust.marks[0], 1, 1)
        assert not _reason(saved, trust)


def _reason(saved: tuple[Checkpoint, ...], trust: Trust = _TRUST) -> str:
    """Why the newest checkpoint cannot be used; empty if it can."""
    found = newest_intact(saved, trust)
    return found.removeprefix(f"it started from the beginning: {saved[-1].path} ") if isinstance(found, str) else ""
