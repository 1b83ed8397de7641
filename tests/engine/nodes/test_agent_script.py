"""The script that starts an agent runs no code of another user, who may have made this user's folders on a node."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gmg_tui
from gmg_tui.engine.launchers import agent_script
from gmg_tui.engine.launchers.launcher import Slurm, Ssh

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user"),
]

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _program(path: Path, first: str, name: str) -> Path:
    """Makes a program that prints `name`."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{first}\necho {name}")
    path.chmod(0o755)
    return path


def _run(script: str, **environ: str) -> tuple[str, str]:
    command, env = ("sh", "-c", script), {**os.environ, **environ}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def _script() -> str:
    agent_script.agent_script.cache_clear()
    return agent_script.agent_script()


def _refusal(what: object) -> tuple[str, str]:
    return "", f"{what} is missing or another user's here: gmg-tui is not run\n"


def test_an_interpreter_that_another_user_has_made_is_not_run(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder of ours is missing, as on a disk of its own, others may make it."""
    python, ours = _program(open_folder / "us" / "python", "/bin/sh", "python"), tmp_path / "gmg-tui"
    ours.write_text(f"#!{sys.executable} -P\nprint('gmg-tui')")
    ours.chmod(0o755)
    _program(tmp_path / "srun", "/bin/sh", "srun")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    (link := tmp_path / "link").symlink_to(further := open_folder / "link")
    further.symlink_to("us/../us/python")
    for path, program in ((python.parent, python), (python.parent, link), (further, link)):
        monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(program), "agent"))
        script = _script()
        assert script == Slurm().command("a")[-1]
        assert script in Ssh("a").command("a")[-1].replace("'\"'\"'", "'")
        for owner, runs in ((0, "python"), (NOBODY, "gmg-tui")):
            os.lchown(path, owner, owner)
            assert _run(script) == (f"{runs}\n", "")
        os.lchown(path, 0, 0)
    python.unlink()
    assert _run(script) == ("gmg-tui\n", "")
    os.chown(ours, NOBODY, NOBODY)
    assert _run(script) == _refusal(ours)
    ours.unlink()
    assert _run(script) == _refusal("gmg-tui")


def test_a_package_that_another_user_has_made_is_not_imported(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a working tree on a scratch disk, which a virtual environment at home names."""
    python = _program(tmp_path / "venv" / "python", "/bin/sh", "python")
    (package := open_folder / "us" / "gmg_tui" / "__init__.py").parent.mkdir(parents=True)
    package.touch()
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(python), "agent"))
    monkeypatch.setattr(gmg_tui, "__file__", str(package))
    assert _run(script := _script(), PATH="/usr/bin:/bin") == ("python\n", "")
    os.chown(package.parent, NOBODY, NOBODY)
    assert _run(script, PATH="/usr/bin:/bin") == _refusal("gmg-tui")
    shutil.rmtree(package.parent)
    assert _run(script, PATH="/usr/bin:/bin") == _refusal("gmg-tui")


def test_an_interpreter_of_a_trusted_or_nameless_user_is_run(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a user for software, or in a container, whose files may be of any user ID."""
    python = _program(open_folder / "us" / "python", "/bin/sh", "python")
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(python), "agent"))
    for owner in (NOBODY, 54321):
        os.chown(python.parent, owner, owner)
        assert _run(_script()) == ("python\n", "")


def test_the_nodes_own_gmg_tui_needs_a_trusted_interpreter(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the one that was refused."""
    theirs = _program(open_folder / "us" / "python", "/bin/sh", "theirs")
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(theirs), "agent"))
    script = _script()
    os.chown(theirs.parent, NOBODY, NOBODY)
    (tmp_path / "bin").mkdir()
    ours = tmp_path / "bin" / "gmg-tui"
    path = f"{tmp_path}/bin:{theirs.parent}:/usr/bin:/bin"
    for first in (
        *(
            str(theirs),
            f" {theirs} -x",
            "/usr/bin/env python",
            f"/usr/bin/env -S {theirs} -P",
            "python",
            "/missing/python",
        ),
        *(f"/bin/sh\n'''exec' {quote}{theirs}{quote} \"$0\" \"$@\"" for quote in ("", '"', "'")),
    ):
        _program(ours, first, "gmg-tui")
        assert _run(script, PATH=path) == _refusal(f"the interpreter of {ours}"), first
    _program(ours, "/bin/sh", "wrapper")
    assert _run(script, PATH=path) == ("wrapper\n", "")
    shutil.chown(theirs.parent, "root")
    theirs.rename(other := theirs.with_name("python3"))
    long = (f"/bin/sh\n'''exec' {quote}{other}{quote} \"$0\" \"$@\"" for quote in ("", '"', "'"))
    for first in (f" {other} -x", "/usr/bin/env python3", *long):
        _program(ours, first, "gmg-tui")
        assert _run(script, PATH=path) == ("theirs\n", ""), first


def test_the_systems_owner_is_not_trusted_inside_a_folder_of_all_users(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a rootless container, root's files seem to be of a user who may be anyone outside."""
    python = _program(open_folder / "us" / "python", "/bin/sh", "python")
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(python), "agent"))
    system, script = "system=$(stat -c %u /)", _script()
    assert system in script
    script = script.replace(system, "system=424242")
    os.chown(python, 424242, 424242)
    assert _run(script) == ("python\n", "")
    python.parent.chmod(0o1777)
    assert _run(script) == _refusal("gmg-tui")


def test_nothing_is_run_where_owners_cannot_be_asked_for(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without coreutils, whose `stat` has `-c`."""
    python = _program(open_folder / "us" / "python", "/bin/sh", "python")
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(python), "agent"))
    script = _script()
    assert script.count("stat -c") == 2
    assert _run(script.replace("stat -c", "false"), PATH="/usr/bin:/bin") == _refusal("gmg-tui")


def test_any_login_shell_leaves_the_script_as_it_is() -> None:
    script = _script()
    assert re.search(r"![^ =]|\n", script) is None, "csh"
    assert "\\" not in script, "fish"
    assert len(script) < 20_000
