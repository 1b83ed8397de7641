"""The choice of the workers' interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.model import Versions
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter


def program(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_active_virtualenv_comes_before_condas_and_both_before_our_own(tmp_path: Path) -> None:
    venv = program(tmp_path / "venv" / "bin" / "python")
    conda = program(tmp_path / "conda" / "bin" / "python")
    active = {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": str(tmp_path / "conda")}
    assert interpreter.default_python(active) == venv
    assert interpreter.default_python({"CONDA_PREFIX": active["CONDA_PREFIX"]}) == conda
    assert interpreter.default_python({}) == sys.executable
    assert interpreter.default_python({"VIRTUAL_ENV": str(tmp_path / "gone")}) == sys.executable


def test_a_python_on_the_path_is_used_if_only_that_has_genesis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = program(tmp_path / "own" / "bin" / "python"), program(tmp_path / "container" / "bin" / "python")
    monkeypatch.setattr(sys, "executable", own)
    path = {"PATH": str(Path(other).parent)}
    assert interpreter.default_python(path) == own
    (tmp_path / "container/local/lib/python3.12/dist-packages/genesis_world-1.4.5.dist-info").mkdir(parents=True)
    assert interpreter.default_python(path) == other
    monkeypatch.chdir(tmp_path / "container" / "bin")
    for current in ("", "."):
        assert interpreter.default_python({"PATH": f"/none:{current}"}) == own, "another user's python, perhaps"
    (tmp_path / "own/lib/python3.12/site-packages/genesis_world-1.4.5.dist-info").mkdir(parents=True)
    assert interpreter.default_python(path) == own


def test_the_reason_for_an_interpreter_is_shown(tmp_path: Path) -> None:
    conda = program(tmp_path / "conda" / "bin" / "python")
    active = {"CONDA_PREFIX": str(tmp_path / "conda"), "VIRTUAL_ENV": ""}
    assert interpreter.origin(conda, active) == f"{conda} (the active conda environment, CONDA_PREFIX)"
    assert interpreter.origin(conda, active, "--python") == f"{conda} (--python)"
    assert interpreter.origin(sys.executable, {}) == f"{sys.executable} (gmg-tui's own)"
    assert interpreter.origin(conda, {}) == conda


@pytest.mark.process
def test_the_command_that_installs_packages_works_without_pip_and_beside_the_systems_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(answer: str) -> str:
        python = program(tmp_path / "python", f"#!/bin/sh\necho {answer}\n")
        return interpreter.install_command(python, "plotly").replace(python, "PYTHON")

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert command("pip") == "PYTHON -m pip install plotly"
    assert command("managed") == "python3 -m venv .venv && . .venv/bin/activate && pip install plotly"
    assert command("none") == "PYTHON -m ensurepip && PYTHON -m pip install plotly"
    program(tmp_path / "bin" / "uv")
    assert command("none") == "uv pip install --python PYTHON plotly"
    assert interpreter.install_command(sys.executable) == f"{sys.executable} -m pip install genesis-world torch"


@pytest.mark.process
def test_a_path_or_a_name_of_an_interpreter_becomes_absolute_and_links_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [tmp_path / folder / "mypython" for folder in ("here", "there")]
    for link in links:
        link.parent.mkdir()
        link.symlink_to(sys.executable)
    here, there = map(str, links)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", str(tmp_path / "there"), prepend=os.pathsep)
    assert interpreter.check_python("./mypython") == here
    assert interpreter.check_python("mypython") == there
    monkeypatch.setenv("HOME", str(tmp_path))
    assert interpreter.check_python("~/here/mypython") == here


@pytest.mark.process
def test_a_path_that_is_not_an_interpreter_is_refused(tmp_path: Path) -> None:
    for path, error in (
        (str(tmp_path / "absent"), "not an executable program"),
        (str(tmp_path), "not an executable program"),
        (program(tmp_path / "true"), "not a Python 3 interpreter"),
        (program(tmp_path / "text", "no program at all"), "cannot be run"),
    ):
        with pytest.raises(GmgError, match=error) as caught:
            interpreter.check_python(path)
        assert str(caught.value).startswith(f"--python {path}")
        assert "\n" not in str(caught.value)


@pytest.mark.process
def test_an_interpreter_that_does_not_answer_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_ANSWER_TIMEOUT_S", 0.2)
    silent = program(tmp_path / "silent", "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(GmgError, match="no answer"):
        interpreter.check_python(silent)
    assert not interpreter.has_genesis(silent)


@pytest.mark.process
def test_genesis_is_located_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "genesis"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert interpreter.has_genesis(sys.executable)
    monkeypatch.delenv("PYTHONPATH")
    assert not interpreter.has_genesis(str(tmp_path / "absent"))
    assert not interpreter.has_genesis(program(tmp_path / "false", "#!/bin/sh\nexit 1\n"))


def test_versions_are_read_from_files_without_starting_a_process(tmp_path: Path) -> None:
    refusing = "#!/bin/sh\nexit 1\n"
    python = program(tmp_path / "venv/bin/python", refusing)
    for package in ("genesis_world-1.4.5", "torch-2.9.0+cu128", "quadrants-1.3.3"):
        (tmp_path / "venv/lib/python3.12/site-packages" / f"{package}.dist-info").mkdir(parents=True)
    assert interpreter.versions(python) == Versions("3.12", "1.4.5", "2.9.0+cu128", "quadrants 1.3.3")
    assert "robosuite" not in interpreter.installed(python)
    (tmp_path / "venv/lib/python3.12/site-packages/robosuite-1.4.1.dist-info").mkdir()
    assert "robosuite" in interpreter.installed(python)
    versioned = program(tmp_path / "usr/bin/python3.13", refusing)
    (tmp_path / "usr/bin/python3").symlink_to(versioned)
    assert interpreter.versions(str(tmp_path / "usr/bin/python3")) == Versions("3.13", None, None)
    assert interpreter.versions(sys.executable).python == f"3.{sys.version_info.minor}"
    assert interpreter.versions(program(tmp_path / "odd/bin/tool", refusing)) == Versions()


@pytest.mark.slow
def test_the_commit_of_a_folder_is_marked_dirty_if_files_differ(tmp_path: Path) -> None:
    assert interpreter.commit_of(str(tmp_path)) is None
    git = ("git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@box")
    (tmp_path / "sim.py").write_text("one")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run((*git, *words), check=True)
    commit = interpreter.commit_of(str(tmp_path))
    assert commit
    os.utime(tmp_path / "sim.py", (1.0, 1.0))
    assert interpreter.commit_of(str(tmp_path)) == commit, "only touched"
    (tmp_path / "sim.py").write_text("two")
    assert interpreter.commit_of(str(tmp_path)) == f"{commit}-dirty"


@pytest.mark.slow
def test_git_runs_no_program_that_the_settings_of_a_submodule_name(tmp_path: Path) -> None:
    """Others may write to a submodule, such as one with data, but not to the repository."""
    data, ran = tmp_path / "data", tmp_path / "ran"
    data.mkdir()
    for folder in (data, tmp_path):
        git = ("git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@box")
        (folder / "sim.py").write_text("one")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
            subprocess.run((*git, *words), check=True)
    (data / ".gitattributes").write_text("* filter=x")
    (data / ".git/config").write_text(f'[filter "x"]\nclean = touch {ran}; cat\n')
    (data / "sim.py").write_text("two")
    commit = interpreter.commit_of(str(tmp_path))
    assert commit
    assert not commit.endswith("-dirty")
    assert not ran.exists()
    moved = ("-C", str(data), "-c", "user.name=me", "-c", "user.email=me@box", "-c", "filter.x.clean=cat")
    subprocess.run(("git", *moved, "commit", "--allow-empty", "-qm", "two"), check=True)
    assert interpreter.commit_of(str(tmp_path)) == f"{commit}-dirty", "another version of the data"
    assert not ran.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_git_runs_no_program_that_another_users_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours, ran = tmp_path / "theirs", tmp_path / "ours", tmp_path / "ran"
    for folder in (theirs, ours):
        folder.mkdir()
    attributes = theirs / "attributes"
    attributes.write_text("* filter=x")
    (theirs / ".gitconfig").write_text(
        f'[core]\nattributesFile = {attributes}\n[filter "x"]\nclean = touch {ran}; cat\n'
    )
    git = ("git", "-C", str(ours), "-c", "user.name=me", "-c", "user.email=me@box")
    (ours / "sim.py").write_text("one")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run((*git, *words), check=True)
    (ours / "sim.py").write_text("two")
    monkeypatch.setenv("HOME", str(theirs))
    for owner, expected in ((0, True), (1, False)):
        os.chown(theirs, owner, -1)
        assert (interpreter.commit_of(str(ours)) or "").endswith("-dirty")
        assert ran.exists() is expected, owner
        ran.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("planted", ["bare", "settings", "tree"])
def test_git_is_not_asked_about_a_repository_that_another_user_can_change(tmp_path: Path, planted: str) -> None:
    """`bare`: in a folder above, which is like `/tmp`."""
    above, ran = tmp_path / "above", tmp_path / "ran"
    ours = above / "ours"
    ours.mkdir(parents=True)
    above.chmod(0o1777)
    (ours / "sim.py").write_text("one")
    where = tmp_path / "theirs" if planted == "bare" else ours
    where.mkdir(exist_ok=True)
    (where / "file").write_text("one")
    git = ("git", "-C", str(where), "-c", "user.name=me", "-c", "user.email=me@box")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run((*git, *words), check=True)
    commit = interpreter.commit_of(str(where))
    (where / "file").write_text("two")
    repository = where / ".git"
    (repository / "info/attributes").write_text("* filter=x")
    with (repository / "config").open("a") as settings:
        settings.write(f'[core]\nbare = false\nworktree = {where}\n[filter "x"]\nclean = touch {ran}; cat\n')
    match planted:
        case "bare":
            for each in repository.iterdir():
                each.rename(above / each.name)
                os.chown(above / each.name, 1, 1)
        case "settings":
            os.chown(repository / "config", -1, 1)
            (repository / "config").chmod(0o664)
        case "tree":
            ours.chmod(0o777)
    assert commit
    assert interpreter.commit_of(str(ours)) is None
    assert not ran.exists()


def test_a_link_that_leads_nowhere_in_a_folder_above_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / ".git").symlink_to("x" * 300)
    assert interpreter.commit_of(str(tmp_path / "ours")) is None


@pytest.mark.slow
def test_a_working_tree_of_a_repository_has_a_commit(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    (ours / "sim.py").write_text("one")
    git = ("git", "-C", str(ours), "-c", "user.name=me", "-c", "user.email=me@box")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one"), ("worktree", "add", "-q", str(other))):
        subprocess.run((*git, *words), check=True)
    assert interpreter.commit_of(str(other)) == interpreter.commit_of(str(ours)) is not None


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_another_users_environment_is_used_only_if_it_is_on_path_and_its_owner_is_named(tmp_path: Path) -> None:
    python = program(tmp_path / "bin/python")
    os.chown(tmp_path, 65534, -1)
    kept = {"VIRTUAL_ENV": str(tmp_path)}
    assert interpreter.default_python(kept) == sys.executable, "sudo -E keeps the variable, but not PATH"
    assert "VIRTUAL_ENV is another user's, and not on PATH" in interpreter.origin(sys.executable, kept)
    (link := tmp_path.with_name("link")).symlink_to(tmp_path)
    for folder in (f"{tmp_path}/bin/", f"{tmp_path}//bin", f"{link}/bin"):
        assert Path(interpreter.default_python(kept | {"PATH": folder})).samefile(python)
    on_path = {"VIRTUAL_ENV": str(link), "PATH": f"{tmp_path}/bin:{link}/bin"}
    assert interpreter.default_python(on_path) == python, "a link is perhaps another user's"
    active = kept | {"PATH": f"/bin:{tmp_path}/bin"}
    assert interpreter.default_python(active) == python
    assert "(the active virtualenv of nobody, VIRTUAL_ENV)" in interpreter.origin(python, active)
