"""Users without a home folder, and state folders of other users: one line says what to do."""

import os
import subprocess
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.cli import agent
from gmg_tui.machine import folders, ownership
from gmg_tui.model import AgentSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis import caches
from tests.cli.scripted import COMMAND, ROOT, WORKER, environ

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
_MADE_UP = ("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "--inh-caps=+dac_read_search")
_MADE_UP_USER = (*_MADE_UP, "--ambient-caps=+dac_read_search")
"""A user without a passwd entry, who can read the files of this checkout all the same."""
_WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
"""Root, whom modes stop."""
READERS = (("ls",), ("logs",), ("report",), ("stop", "--all"), ("attach",), ("rm", "sim-1", "--yes"))


def _run(user: tuple[str, ...], *words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*user, *COMMAND, *words]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_relative_and_empty_folders_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    passwd = folders.home({})
    assert passwd is not None
    assert folders.home({"HOME": ""}) == folders.home({"HOME": "x"}) == passwd
    monkeypatch.setattr(os, "getuid", lambda: 424242)
    assert folders.home({"HOME": ""}) is caches.kernel_cache({}) is None
    assert ownership.user_name(424242) == "user 424242"


@needs_root
@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_a_user_without_a_home_folder_is_told_what_to_set(home: dict[str, str], tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for words in (*READERS, ("--cpu", "1", "--headless", WORKER)):
        done = _run(_MADE_UP_USER, *words, cwd=tmp_path, **home)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert done.stderr == "gmg-tui: user 4242 has no home folder for sessions; set HOME or XDG_STATE_HOME\n"
    assert list(tmp_path.iterdir()) == [], "nothing is made in a folder called ~"


@needs_root
def test_a_state_folder_is_enough(tmp_path: Path) -> None:
    (state := tmp_path / "theirs").mkdir()
    os.chown(state, 4242, 4242)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    variables = {"XDG_STATE_HOME": str(state), "LC_ALL": "broken", "TMPDIR": "/nowhere"}
    done = _run(_MADE_UP_USER, "--cpu", "1", "--headless", WORKER, "--lines", "2", cwd=tmp_path, **variables)
    assert (done.returncode, "1 finished" in done.stdout) == (0, True), done.stderr
    listed = _run(_MADE_UP_USER, "ls", cwd=tmp_path, **variables)
    assert "1 finished" in listed.stdout, listed.stderr


@needs_root
def test_unreadable_sessions_of_another_user_are_reported(tmp_path: Path) -> None:
    folder = sessions.create("sim-1", "sim.py")
    state = sessions.sessions_folder()
    os.chown(folder, 4242, 4242)
    one = f"cannot read {folder}: Permission denied; {folder} belongs to user 4242"
    for words, text in ((("ls",), "sim-1 cannot be read; it belongs to user 4242"), (("logs", "sim-1", "cpu0"), one)):
        done = subprocess.run([*_WITHOUT_RIGHTS, *COMMAND, *words], capture_output=True, text=True, env=environ())
        assert text in done.stdout + done.stderr
    os.chown(state, 4242, 4242)
    for command in READERS:
        done = subprocess.run([*_WITHOUT_RIGHTS, *COMMAND, *command], capture_output=True, text=True, env=environ())
        assert (done.returncode, done.stdout) == (1, ""), command
        assert "Permission denied" in done.stderr
        assert "belongs to user 4242: use gmg-tui as that user, or set XDG_STATE_HOME" in done.stderr


def test_a_state_folder_that_is_a_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gmg-tui").mkdir()
    (tmp_path / "gmg-tui" / "sessions").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(GmgError, match="sessions: Not a directory"):
        sessions.list_sessions()


@needs_root
def test_an_agent_is_found_when_another_user_no_longer_has_the_configured_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a second one would run beside it."""
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o1777)
    (configured := shared / "us").mkdir()
    os.chown(configured, 4242, 4242)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(configured))
    agent_spec = AgentSpec("n1", "s", "id")
    folder = agent._agent_folder(agent_spec, "id")
    assert folder == tmp_path / "home/.local/state/gmg-tui/nodes/s@n1-id"
    folder.mkdir(parents=True)
    configured.rmdir()
    descriptor = sessions.lock(folder)
    assert agent._agent_folder(agent_spec, "id") == folder
    os.close(descriptor)
    assert agent._agent_folder(agent_spec, "id") == configured / "gmg-tui/nodes/s@n1-id"
