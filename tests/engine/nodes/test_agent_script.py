"""The script that starts an agent runs no code of another user, who may have made this user's folders on a node."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from gmg_tui.engine.launchers import agent_script
from gmg_tui.engine.launchers.launcher import Slurm, Ssh
from gmg_tui.scripts import interpreter

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
    """Makes a program that prints `name`, but nothing for the check of imports."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!{first}\n[ "$1" = -I ] || echo {name}')
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
        *(f"/bin/sh\n'''exec' {theirs} \"$0\" \"$@\"", f'/bin/sh\n\'\'\'exec\' "{theirs}" "$0" "$@"'),
    ):
        _program(ours, first, "gmg-tui")
        assert _run(script, PATH=path) == _refusal(f"the interpreter of {ours}"), first
    _program(ours, "/bin/sh", "wrapper")
    assert _run(script, PATH=path) == ("wrapper\n", "")
    shutil.chown(theirs.parent, "root")
    theirs.rename(other := theirs.with_name("python3"))
    for first in (f" {other} -x", "/usr/bin/env python3", f"/bin/sh\n'''exec' {other} \"$0\" \"$@\""):
        _program(ours, first, "gmg-tui")
        assert _run(script, PATH=path) == ("theirs\n", ""), first


@pytest.mark.parametrize("way", ["PYTHONPATH", "pth", "link"])
def test_nothing_is_imported_that_another_user_has_made_or_could_make(
    way: str, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a package in editable mode on a scratch disk, or from a PYTHONPATH that Slurm passes on."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    package, ran = open_folder / "us" / "walk", tmp_path / "ran"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code := f"open({str(ran)!r}, 'w')")
    (package / "sitecustomize.py").write_text(code)
    environ = {}
    if way == "pth":
        (site / "walk.pth").write_text(f"{package}\nimport sitecustomize")
    elif way == "link":
        (site / "walk").symlink_to(package)
        (site / "sitecustomize.py").write_text("import walk")
    else:
        environ["PYTHONPATH"] = str(package)
    command = str(tmp_path / "venv" / "bin" / "python"), "-c", "print('agent')"
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", command)
    script = _script()
    assert _run(script, **environ) == ("agent\n", "")
    assert ran.exists()
    ran.unlink()
    os.chown(package.parent, NOBODY, NOBODY)
    output, trouble = _run(script, **environ)
    assert (output, trouble) == (
        "",
        f"{package.parent} belongs to nobody here, unlike on the session's machine: not run\n",
    )
    shutil.rmtree(package.parent)
    assert _run(script, **environ)[0] == "agent\n"
    open_folder.chmod(0o1777)
    if way != "link":  # Python would find no module
        problem = f"{package} is missing here, and others could create it: not run\n"
        assert _run(script, **environ) == ("", problem)
    assert not ran.exists()


def test_no_program_is_searched_in_another_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm passes on a PATH whose first folder may be another user's on a node's own disk."""
    folders = [tmp_path / name for name in ("venv", "us", "two words")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("PATH", ":".join([str(tmp_path / "missing"), *map(str, folders), os.environ["PATH"]]))
    program = "import os; print(os.environ['PATH'])"
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (sys.executable, "-c", program))
    script = _script()

    def searched() -> list[str]:
        """Returns the names of those of the folders that the agent searches."""
        found = _run(script)[0].split(":")
        assert "/usr/bin" in found
        return [Path(folder).name for folder in found if folder.startswith(str(tmp_path))]

    assert searched() == ["venv", "us", "two words"]
    os.chown(folders[0], NOBODY, NOBODY)
    os.chown(folders[2], NOBODY, NOBODY)
    (tmp_path / "id").write_text("#!/bin/sh\ntouch ran")
    assert searched() == ["us"]
    script = _script()
    assert searched() == ["venv", "us", "two words"], "its owner is trusted there, too"
    tmp_path.chmod(0o1777)
    script = _script()
    assert searched() == ["us"], "except where all users may have made what was missing here"


def test_the_owner_of_a_folder_in_path_is_not_trusted_with_the_interpreter(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _program(open_folder / "us" / "python", "/bin/sh", "python")
    (tools := tmp_path / "tools").mkdir()
    os.chown(tools, NOBODY, NOBODY)
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{tools}")
    monkeypatch.setattr(agent_script, "AGENT_COMMAND", (str(python), "agent"))
    script = _script()
    os.chown(python.parent, NOBODY, NOBODY)
    assert _run(script) == _refusal("gmg-tui")


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


def test_any_login_shell_leaves_the_script_as_it_is() -> None:
    script = _script()
    assert re.search(r"![^ =]|\n", script) is None, "csh"
    assert "\\" not in script, "fish"
    assert len(script) < 20_000


def test_the_check_of_imports_runs_before_all_of_them(tmp_path: Path) -> None:
    """It must not import what it has yet to check."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    for name in ("sitecustomize", "zlib", "json", "gmg_tui"):
        (site / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert str(site) in interpreter.import_paths_of(python, "", None, {"PYTHONPATH": str(site)})
    check = agent_script._pack_check(["0/root"])
    environ = {"PYTHONPATH": str(site)}
    command = (python, "-I", "-S", "-c", agent_script._RUN_CHECK, check)
    subprocess.run(command, env=environ, cwd=site, check=True)
    assert not (tmp_path / "ran").exists()
