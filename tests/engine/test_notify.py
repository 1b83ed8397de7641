"""The command of `--notify`: run by the engine, whoever is attached."""

import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.engine import notify as module
from gmg_tui.engine.notify import Notifications
from gmg_tui.model import OccurrenceKind, RestartMode, RunSpec, WorkerState
from gmg_tui.scripts.genesis.environ import WORKER_VARIABLES
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from tests.engine.harness import JOB, Running, lives, program, running, spec_for, sweep_for
from tests.engine.test_groups import group_of
from tests.patience import eventually
from tests.workers import texts

NEVER = ("--lines", "0")


def _notified(folder: Path) -> dict[str, dict[str, str]]:
    notified = {}
    for file in folder.glob("*.notified"):
        variables = dict(line.partition("=")[::2] for line in file.read_text().splitlines())
        notified[variables["GMG_EVENT"] + variables["GMG_SLOT"]] = variables
    return notified


def _writes(folder: Path) -> str:
    """A command that writes its variables atomically to a separate file."""
    at = shlex.quote(str(folder))
    return f"env | grep ^GMG_ > {at}/$$ && mv {at}/$$ {at}/$$.notified"


async def test_a_failure_and_the_end_are_notified_before_the_engine_exits(tmp_path: Path) -> None:
    spec = spec_for(
        "--lines", "4", "--crash", "traceback", notify=("bell", _writes(tmp_path)), restart=RestartMode.NEVER
    )
    async with running(spec) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended and len(snapshot.occurred) == 2)
        await run.leave()
        assert await run.process.wait() == 0
    reason = snapshot.workers[0].reason or ""
    assert "the robot has 9 joints" in reason
    assert [event.kind for event in snapshot.occurred] == [OccurrenceKind.FAILED, OccurrenceKind.ENDED]
    failed, ended = _notified(tmp_path)["failedcpu0"], _notified(tmp_path)["ended"]
    assert failed["GMG_TEXT"] == f"cpu0 has failed: {reason}"
    assert failed["GMG_REASON"] == reason
    assert (failed["GMG_SESSION"], failed["GMG_FOLDER"]) == (spec.name, spec.folder)
    assert failed["GMG_JOB"] == ""
    assert ended["GMG_TEXT"] == f"{spec.name} has ended: 1 failed"


async def test_a_session_started_by_a_notification_is_no_part_of_the_outer_one(tmp_path: Path) -> None:
    """Whose watchdog and engine find their processes by the environment that these were started with."""
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    words = (sys.executable, "-m", "gmg_tui", "--detach", "--cpu", "1", "--name", "inner", "--no-probe", str(script))
    outer = spec_for("--lines", "1", notify=(shlex.join(words),))
    async with running(outer) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
    entry = sessions.find("inner", running=True)
    client = await EngineClient.connect(Path(entry.record.session.spec.socket))
    inner = Running(cast("Any", None), client, entry.record.session.spec)
    worker = await inner.until_state("cpu0", WorkerState.RUNNING)
    engine, script_process = psutil.Process(entry.record.session.engine_pid), psutil.Process(worker.pid)
    assert not [name for name in engine.environ() if name in WORKER_VARIABLES]
    names = {name for name in script_process.environ() if name in WORKER_VARIABLES}
    assert not names & {"GMG_EVENT", "GMG_TEXT", "GMG_REASON", "GMG_FOLDER", "GMG_JOB"}
    await client.end(kill=True)
    await inner.leave()
    await eventually(lambda: not lives(entry.record.session.engine_pid))


async def test_what_a_script_prints_is_never_read_by_the_shell(tmp_path: Path) -> None:
    script, harm = tmp_path / "evil.py", tmp_path / "harm"
    words = "$(touch harm) `touch harm`; touch harm #' \" \\ \x1b]0;x\x07"
    script.write_text(f"raise ValueError({words!r})\n")
    reasons = tmp_path / "reasons"
    command = f'printf "%s\\n" "$GMG_REASON" >> {reasons}; sh -c "true"'
    async with running(
        spec_for(script=str(script), notify=(command,), restart=RestartMode.NEVER, cwd=str(tmp_path))
    ) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
    reason, of_the_end = reasons.read_text().splitlines()
    assert reason.startswith("ValueError: $(touch harm) `touch harm`; touch harm #' \" \\")
    assert of_the_end == ""
    assert not harm.exists()


async def test_a_notification_does_not_need_the_folder_that_a_script_has_removed(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    (script := tmp_path / "script.py").write_text("import os; os.rmdir(os.getcwd())")
    async with running(spec_for(script=str(script), notify=(f"pwd > {tmp_path}/seen",), cwd=str(folder))) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
    assert (tmp_path / "seen").read_text() == "/\n"
    folder.mkdir()
    command = f"pwd > {tmp_path}/seen"  # given at a resume in another folder
    async with running(spec_for("--lines", "1", cwd=str(folder), notify=(command,), notify_cwd=str(tmp_path))) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
    assert (tmp_path / "seen").read_text() == f"{tmp_path}\n"


async def test_a_command_is_neither_shown_by_ps_nor_inherited(tmp_path: Path) -> None:
    command = f"tr '\\0' ' ' < /proc/$$/cmdline > {tmp_path}/shown; env > {tmp_path}/env; : s3cret"
    async with running(spec_for("--lines", "1", notify=(command,), cwd=str(tmp_path))) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
    shown = (tmp_path / "shown").read_text()
    assert (shown.startswith("/bin/sh -c "), "s3cret" in shown) == (True, False)
    assert "s3cret" not in (tmp_path / "env").read_text()


async def test_commands_run_elsewhere_while_the_disk_of_their_folder_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, hung = tmp_path / "seen", threading.Event()
    asked: list[object] = []

    def ask(*words: object) -> None:
        asked.append(words)
        hung.wait()

    monkeypatch.setattr(module, "changed_owner", ask)
    monkeypatch.setattr(module, "_DISK_TIMEOUT_S", 0.1)
    notes: list[str | None] = []
    notifications = Notifications(spec_for(notify=(f"pwd >> {seen}",), cwd=str(tmp_path)), notes.append)
    for number in range(2):
        notifications.add(OccurrenceKind.JOB_FAILED, "it failed", job=number)
    await notifications.finish()
    assert (seen.read_text(), notes) == ("/\n/\n", [None, None])
    assert len(asked) == 1, "however many commands"
    hung.set()


async def test_a_group_failure_notifies_the_failed_rank() -> None:
    async with running(group_of("--die", "middle", cpu=3, restart=RestartMode.NEVER)) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended and len(snapshot.occurred) > 1)
        assert all(worker.state is WorkerState.FAILED for worker in snapshot.workers)
    assert [(event.kind, event.slot) for event in snapshot.occurred] == [
        (OccurrenceKind.FAILED, "cpu1"),
        (OccurrenceKind.ENDED, ""),
    ]
    assert snapshot.occurred[0].text == "cpu1 has failed: ValueError: rank 1 dies here"


async def test_a_job_failure_is_notified_after_its_last_attempt(tmp_path: Path) -> None:
    batch = program("--fail", "{code}", restart=RestartMode.FAILURE, max_restarts=1)
    jobs: tuple[dict[str, int | str], ...] = ({"name": "good", "code": 0}, {"name": "bad", "code": 3})
    async with running(sweep_for(jobs, batch, cpu=1, notify=(_writes(tmp_path),))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended and snapshot.occurred)
        await run.leave()
        await run.process.wait()
    notified = _notified(tmp_path)
    assert set(notified) == {"job-failedcpu0", "ended"}
    bad = notified["job-failedcpu0"]
    assert (bad["GMG_JOB"], bad["GMG_JOB_NAME"], bad["GMG_REASON"]) == ("2", "bad", "exit code 3")
    assert notified["ended"]["GMG_TEXT"].endswith("has ended: 2 jobs, 1 finished, 1 failed")
    assert [event.kind for event in snapshot.occurred] == [OccurrenceKind.JOB_FAILED, OccurrenceKind.ENDED]


async def test_a_notify_command_is_not_a_process_of_the_worker(tmp_path: Path) -> None:
    go, begun, done = tmp_path / "go", tmp_path / "begun", tmp_path / "done"
    waits = f"[ $GMG_EVENT = failed ] || exit 0; touch {begun}; while [ ! -e {go} ]; do sleep 0.1; done; touch {done}"
    crash = ("--crash", "traceback", "--crash-at", "building", "--crash-attempt", "1")
    spec = spec_for(*NEVER, *crash, notify=(waits,), restart=RestartMode.NEVER)
    async with running(spec) as run:
        await eventually(begun.exists)
        await run.client.act(Action.RESTART, "cpu0")
        worker = await run.until_state("cpu0", WorkerState.RUNNING)
        assert worker.pid is not None
        await run.client.act(Action.KILL, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert not any("left behind" in warning for warning in texts(stopped.alerts))
        go.touch()
        await eventually(done.exists)


async def test_a_notify_command_that_cannot_run_is_shown_on_the_screen(tmp_path: Path) -> None:
    async with running(spec_for(notify=("no-such-program --to me",))) as run:
        snapshot = await run.until(lambda snapshot: any("--notify" in note for note in texts(snapshot.alerts)))
    (note,) = (note for note in texts(snapshot.alerts) if "--notify" in note)
    assert note == "--notify command 1: exit code 127", "a viewer must not see a secret in it"


class _Commands:
    """The notify commands of a session without an engine, and their notes."""

    def __init__(self, *commands: str) -> None:
        self.notes: list[str | None] = []
        spec = RunSpec("sim-1", "/", "/s", "sim.py", (), "/", "python", notify=commands)
        self.commands = Notifications(spec, self.notes.append)

    def happen(self, reason: str = "", kind: OccurrenceKind = OccurrenceKind.FAILED) -> None:
        self.commands.add(kind, "something", slot="gpu0", reason=reason)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[..., _Commands]:
    """Makes commands that may take three seconds, within which a shell starts on a busy machine too."""
    monkeypatch.setattr(module, "COMMAND_TIMEOUT_S", 3.0)
    return _Commands


@pytest.mark.process
async def test_a_hanging_notify_command_is_killed_with_its_children(
    quick: Callable[..., _Commands], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    made = quick(f"trap '' TERM; sleep 1000 & echo $! $$ > {pids}; wait; sleep 1000")
    made.happen()
    await made.commands.finish()
    assert made.notes == ["--notify command 1: timed out after 3 s"]
    background, shell = map(int, pids.read_text().split())
    await eventually(lambda: not lives(background) and not lives(shell))


@pytest.mark.process
async def test_notify_commands_run_in_order_one_at_a_time_and_excess_ones_are_dropped(tmp_path: Path) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    made = _Commands(f'echo "begin $GMG_REASON" >> {log}; while [ ! -e {go} ]; do sleep 0.05; done; echo end >> {log}')
    made.happen("0")
    await eventually(log.exists)
    for number in range(1, 101):
        made.happen(str(number))
    made.happen("last", OccurrenceKind.ENDED)
    go.touch()
    await made.commands.finish()
    lines = log.read_text().splitlines()
    assert lines[1::2] == ["end"] * 34
    assert lines[::2] == [*(f"begin {number}" for number in range(33)), "begin last"]
    assert [event.reason for event in made.commands.newest] == [*(str(number) for number in range(86, 101)), "last"]


async def test_a_second_stop_waits_for_no_command(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    async with running(spec_for(script=JOB, probe=False, notify=(f"touch {begun}; sleep 1000",))) as run:
        ended = await run.until(lambda snapshot: snapshot.ended and begun.exists())
        await run.client.end()
        await run.until(lambda snapshot: snapshot.time > ended.time + 3.0)
        await run.client.end()
        await run.leave()
        assert await run.process.wait() == 0
        assert "timed out after" not in run.log()
