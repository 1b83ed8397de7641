"""Sessions on a file system without locks: they run, end, and are not taken for one another."""

import errno
import fcntl
import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.cli import doctor
from gmg_tui.model.errors import GmgError
from gmg_tui.session import paths
from tests.cli.scripted import WORKER, gmg
from tests.patience import LONG_S

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def _without_locks(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("code", NO_LOCKS)
def test_an_engine_is_found_by_its_log_where_nothing_can_be_locked(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_locks(monkeypatch, code)
    monkeypatch.setattr(paths, "_LOCK_TIMEOUT_S", 0.05)
    assert not sessions.is_locked(tmp_path)
    os.close(sessions.lock(tmp_path))
    assert not sessions.is_locked(tmp_path)
    log = (tmp_path / sessions.ENGINE_LOG).open("ab")
    with log, subprocess.Popen(["sleep", "600"], stderr=log) as engine:
        assert sessions.is_locked(tmp_path)
        with pytest.raises(GmgError, match="an engine is already running in"):
            sessions.lock(tmp_path)
        engine.kill()
    assert not sessions.is_locked(tmp_path)


def test_doctor_names_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    _without_locks(monkeypatch, errno.ENOSYS)
    finding = doctor.check_sessions_folder()
    assert (finding.verdict, "flock: Function not implemented" in finding.result) == (doctor.WARN, True)
    assert "XDG_STATE_HOME" in (finding.advice or "")


@pytest.mark.parametrize("code", NO_LOCKS)
def test_a_session_runs_and_is_reported_on_a_disk_without_locks(code: int, tmp_path: Path) -> None:
    library = tmp_path / "lib" / "lockless.so"
    library.parent.mkdir()
    source = Path(__file__).with_name("lockless.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    env = {"LD_LIBRARY_PATH": str(library.parent), "LD_PRELOAD": library.name, "GMG_NO_LOCKS": str(code)}
    ran = gmg("--cpu", "1", "--headless", "--name", "one", WORKER, "--lines", "3", **env)
    assert ran.returncode == 0, ran.stderr
    started = gmg("--cpu", "1", "--detach", "--name", "two", WORKER, "--lines", "0", **env)
    assert started.returncode == 0, started.stderr
    listed = {entry["name"]: entry for entry in json.loads(gmg("ls", "--json", **env).stdout)}
    assert {name: entry["state"] for name, entry in listed.items()} == {"one": "ended", "two": "running"}
    assert json.loads(gmg("report", "one", "--json", **env).stdout)
    engine = psutil.Process(listed["two"]["engine_pid"])
    assert gmg("stop", "two", **env).returncode == 0
    psutil.wait_procs([engine], timeout=LONG_S)
    states = {entry["state"] for entry in json.loads(gmg("ls", "--json", **env).stdout)}
    assert states == {"ended"}


def test_an_engine_is_alive_although_its_log_was_removed_or_cannot_be_opened(tmp_path: Path) -> None:
    """A list of the sessions would otherwise kill its workers."""
    (real := tmp_path / "real").mkdir()
    (folder := tmp_path / "link").symlink_to(real)
    log = real / sessions.ENGINE_LOG
    with log.open("ab") as file, subprocess.Popen(["sleep", "600"], stderr=file) as engine:
        log.unlink()
        assert sessions.is_locked(folder)
        os.mkfifo(log)
        assert sessions.is_locked(folder)
        engine.kill()
    assert not sessions.is_locked(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("ids", [("--reuid=4242", "--clear-groups"), ("--ruid=4242",)], ids=["other", "set-user-ID"])
def test_another_users_process_is_no_engine(ids: tuple[str, ...], tmp_path: Path) -> None:
    """In a mount namespace of their own, others may have a file at any path."""
    log = tmp_path / sessions.ENGINE_LOG
    command = ["setpriv", *ids, "sh", "-c", "echo; exec sleep 600"]
    with log.open("ab") as file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has the other IDs
        log.unlink()
        is_locked = sessions.is_locked(tmp_path)
        process.kill()
    assert not is_locked
