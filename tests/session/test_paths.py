"""Names of sessions, who may look into their folders, and the engine's lock."""

import fcntl
import os
import pwd
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.machine.folders import runtime_folder
from gmg_tui.model.errors import GmgError
from gmg_tui.session import paths


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("a/sim.py", "sim-1"),
        ("torch.distributed.run", "torch.distributed.run-1"),
        ("exp.v2.toml", "exp.v2-1"),
        ("pkg/", "pkg-1"),
        ("…", "session-1"),
    ],
)
def test_a_session_is_named_after_its_script_or_the_whole_of_its_module(script: str, name: str) -> None:
    assert sessions.create(None, script).name == name


@pytest.mark.parametrize("name", ["", "../x", "-x", "a" * 41, "a b"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(GmgError, match="--name"):
        sessions.create(name, "sim.py")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_session_folders_are_private_with_any_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = sessions.create(None, "sim.py")
    finally:
        os.umask(before)
    state = sessions.sessions_folder().parent
    made = (state.parent, state, sessions.sessions_folder(), folder, folder / sessions.LOGS)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 5


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(GmgError, match="set XDG_STATE_HOME") as caught:
        sessions.create(None, "sim.py")
    assert caught.value.exit_code == 1


def test_an_engine_starts_while_its_session_is_being_read(tmp_path: Path) -> None:
    looking = os.open(tmp_path / sessions.ENGINE_LOG, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    leaving = threading.Timer(1.5, os.close, [looking])  # it had to wait for the CPU meanwhile
    leaving.start()
    try:
        os.close(sessions.lock(tmp_path))
    finally:
        leaving.join()


def test_two_engines_do_not_run_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_LOCK_TIMEOUT_S", 0.05)
    locked = sessions.lock(tmp_path)
    with pytest.raises(GmgError, match="an engine is already running in"):
        sessions.lock(tmp_path)
    os.close(locked)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_a_stranger_cannot_keep_an_engine_from_listening(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    state = tempfile.mkdtemp(prefix="gmg-", dir="/tmp")  # short: a socket's path has room for 107 bytes
    request.addfinalizer(lambda: shutil.rmtree(state))
    monkeypatch.setenv("XDG_STATE_HOME", state)
    sessions.create("mine", "sim.py")
    assert sessions.socket_path("mine").parent == shared / f"gmg-tui-{os.getuid()}"
    os.chown(shared / f"gmg-tui-{os.getuid()}", 65534, -1)
    assert sessions.socket_path("mine").parent == sessions.sessions_folder().parent / "sockets"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_folders_of_another_user_in_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, theirs = tmp_path / "home", tmp_path / "theirs"
    for folder in (home, theirs):
        folder.mkdir()
    os.chown(theirs, 65534, -1)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(theirs))
    assert sessions.sessions_folder() == home / ".local/state/gmg-tui/sessions"
    assert runtime_folder() is None
    assert len(list(sessions.ignored_folders())) == 2
    monkeypatch.setenv("HOME", str(theirs))  # as sudo may keep it
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert sessions.sessions_folder() == real / ".local/state/gmg-tui/sessions"


def test_a_state_folder_that_others_could_create_is_created_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o1777)
        state = Path(shared, "gone", "state")
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        assert sessions.sessions_folder() == state / "gmg-tui" / "sessions"
        assert stat.S_IMODE((state / "gmg-tui").stat().st_mode) == 0o700
        assert not sessions.folders()
