"""Starting an engine that crashes, refuses, is slow, or is cancelled."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.cli import launch, prestart
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.session import paths
from tests.cli.scripted import COMMAND, ROOT, WORKER, environ, gmg, options_of_run
from tests.patience import LONG_S, wait_until


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    folder = sessions.create("far", "sim.py")
    return RunSpec("far", str(folder), str(sessions.socket_path("far")), "sim.py", (), str(tmp_path), "python", cpu=1)


def _start(spec: RunSpec) -> None:
    with prestart.PrestartedEngine() as engine:
        launch.start(options_of_run(headless=True), lambda: (spec, OpenFolder.open(Path(spec.folder))), engine=engine)


@pytest.mark.process
def test_the_log_of_a_crashed_engine_has_its_last_output(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prestart, "_BOOT", "raise RuntimeError('broken installation')")
    with pytest.raises(GmgError, match=r"see .*far/engine\.log"):
        _start(spec)
    assert "broken installation" in (Path(spec.folder) / "engine.log").read_text()


@pytest.mark.process
def test_a_refusal_is_reported_and_leaves_nothing_behind(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prestart, "_BOOT", """print('{"ok": false, "error": "no such GPU", "exit_code": 2}')""")
    with pytest.raises(GmgError, match="no such GPU") as refusal:
        _start(spec)
    assert refusal.value.exit_code == 2
    assert not Path(spec.folder).exists()


@pytest.mark.process
def test_a_refusal_leaves_a_folder_in_which_another_engine_runs(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prestart, "_BOOT", """print('{"ok": false, "error": "already running", "exit_code": 1}')""")
    monkeypatch.setattr(paths, "_LOCK_TIMEOUT_S", 0.0)
    descriptor = sessions.lock(Path(spec.folder))
    with pytest.raises(GmgError, match="already running"):
        _start(spec)
    os.close(descriptor)
    assert Path(spec.folder, sessions.ENGINE_LOG).exists()


@pytest.mark.process
def test_an_engine_neither_uses_nor_removes_a_folder_that_has_replaced_its_own(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(spec.folder)
    opened = OpenFolder.open(folder)
    shutil.rmtree(folder)
    other = sessions.create("far", "sim.py")
    monkeypatch.setattr(OpenFolder, "open", lambda path: opened)
    with pytest.raises(GmgError, match="far has been removed"):
        _start(spec)
    assert [path.name for path in other.iterdir()] == [sessions.LOGS, sessions.ENGINE_LOG]


@pytest.mark.process
def test_an_engine_is_cancelled_with_the_command_that_started_it(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*, headless: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prestart, "_BOOT", "import time; time.sleep(600)")
    monkeypatch.setattr(launch, "_import_viewer", interrupted)
    before = psutil.Process().children()  # of other tests, if nobody has waited for them
    with pytest.raises(KeyboardInterrupt):
        _start(spec)
    assert "ctrl+c again kills it" in capsys.readouterr().err
    assert not Path(spec.folder).exists()
    assert set(psutil.Process().children()) <= set(before)


def test_an_engine_without_a_request_is_ended(tmp_path: Path) -> None:
    with prestart.PrestartedEngine() as engine:
        process = psutil.Process(engine.process.pid)
    assert not process.is_running()
    done = gmg("--cpu", "1", str(tmp_path / "missing.py"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("nodes", "message"), [((), "waiting for the engine; without"), (("--nodes", "local:1"), "waiting for the nodes")]
)
def test_a_wait_is_shown_on_the_terminal_and_cleared(tmp_path: Path, nodes: tuple[str, ...], message: str) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys; from gmg_tui.cli import app as cli; from gmg_tui.cli import prestart, launch\n"
        "import contextlib\n"
        "launch._SHOW_WAIT_AFTER_S, waiting = 0.01, launch.waiting\n"
        f"message = {str(tmp_path / 'message')!r}\n"
        "@contextlib.contextmanager\n"
        "def noticed(text):\n"
        "    with waiting(text) as show:\n"
        "        yield lambda text: (show(text), open(message, 'w').close())\n"
        "launch.waiting = noticed\n"
        # However late that comes on a busy machine, the engine answers later.
        "waits = f'import os, time\\nwhile not os.path.exists({message!r}): time.sleep(0.02)\\n'\n"
        "prestart._BOOT = waits + prestart._BOOT\n"
        "cli.main(sys.argv[1:])\n"
    )
    words = [str(tmp_path / "slow.py"), *nodes, "--cpu", "1", "--name", "far", "--detach", WORKER, "--lines", "0"]
    printed = pexpect.spawn(sys.executable, words, env=environ(), timeout=LONG_S).read().decode()
    assert message in printed[:40]
    assert printed.endswith("\r\x1b[Kfar\r\n")
    assert gmg("stop").returncode == 0


def test_modules_beside_the_script_do_not_take_the_place_of_pythons(tmp_path: Path) -> None:
    for name in ("queue", "socket", "platform"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the real one')")
    command = [sys.executable, "-P", "-m", "gmg_tui", "--cpu", "1", WORKER, "--lines", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


def test_ctrl_c_while_modules_are_imported_ends_the_command_quietly(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = gmg("ls", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


_INTERRUPTED = (
    "import os, signal, sys; from gmg_tui import headless; from gmg_tui.cli import app as cli\n"
    "from gmg_tui.cli import launch\n"
    "before = launch.{name}\n"
    "def interrupted(*words, **options):\n"
    "    os.kill(os.getpid(), signal.{sent})\n"
    "    return before(*words, **options)\n"
    "launch.{name} = interrupted\n"
    "cli.main(sys.argv[1:])\n"
)


@pytest.mark.parametrize(
    ("name", "stopped", "left"),
    [("_import_viewer", 0, []), ("_await_reply", 0, []), ("_show", 1, ["ended"])],
    ids=["while loading", "before the start", "before the report"],
)
def test_a_signal_at_any_moment_of_the_start_ends_the_run(name: str, stopped: int, left: list[str]) -> None:
    words = ["--cpu", "1", WORKER, "--lines", "0", "--rate", "20"]
    program = _INTERRUPTED.format(name=name, sent="SIGTERM")
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=environ(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr.count(b"stopping the workers")) == (130, stopped)
    assert [entry.state for entry in sessions.list_sessions()] == left


def test_a_hang_up_while_a_session_is_prepared_leaves_nothing() -> None:
    program = _INTERRUPTED.format(name="_launch", sent="SIGHUP")
    done = subprocess.run([sys.executable, "-c", program, "--cpu", "1", WORKER], env=environ())
    wait_until(lambda: not sessions.folders())
    assert done.returncode == -signal.SIGHUP


@pytest.mark.process
def test_the_name_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    shutil.copy(WORKER, folder / "sim.py")
    shown = f"{tmp_path}/caf\\xe9"
    for words, variables, text in (
        ((str(folder / "sim.py"),), {}, f"{shown}/sim.py is not UTF-8"),
        ((WORKER, "\udce9"), {}, r"gmg-tui: \xe9 is not UTF-8"),
        ((WORKER,), {"XDG_STATE_HOME": str(folder)}, f"{shown}/gmg-tui/sessions/"),
    ):
        done = gmg("--cpu", "1", "--headless", *words, **variables)
        assert (done.returncode, text in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    done = subprocess.run(
        [*COMMAND, "--cpu", "1", "--headless", "sim.py"], cwd=folder, env=environ(), capture_output=True, text=True
    )
    assert f"{shown} is not UTF-8" in done.stderr
    findings = json.loads(gmg("doctor", "--json", XDG_STATE_HOME=str(folder)).stdout)
    assert next(finding["verdict"] for finding in findings if finding["check"] == "sessions") == "FAIL"


def test_nothing_starts_where_proc_shows_the_pids_of_another_namespace() -> None:
    """Signals would reach other processes than those seen: another user could choose which."""
    command = ["unshare", "--pid", "--fork", *COMMAND, "--headless", "--cpu", "1", WORKER]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True)
    if "unshare" in done.stderr.split("gmg-tui")[0]:
        pytest.skip(f"no PID namespace can be made here: {done.stderr.strip()}")
    assert done.returncode == 1
    assert "/proc is missing, or shows another PID namespace: mount it anew" in done.stderr
