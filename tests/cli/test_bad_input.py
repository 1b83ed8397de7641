"""What cannot be meant so is one line on standard error, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import psutil
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import environ
from tests.nvml_sim import Sim

_COMMAND = (sys.executable, "-m", "gmg_tui")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with scripts of many kinds."""
    folder = tmp_path / "scripts"
    (folder / "package").mkdir(parents=True)
    (folder / "sim.py").write_text("print('fine')")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe.py")
    (folder / "no-python").write_text("#!/bin/sh\nexit 3\n")
    (folder / "no-python").chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin" / "no-genesis").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (folder / "bin" / "no-genesis").chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process of the test's own is left, and no session."""
    before = set(psutil.Process().children(recursive=True))  # of other tests, if nobody has waited for them
    yield
    assert set(psutil.Process().children(recursive=True)) <= before
    assert sessions.listing() == []
    assert not sessions.sessions_folder().exists() or not list(sessions.sessions_folder().iterdir())


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    assert done.stderr.startswith("gmg-tui: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def _gmg(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *words],
        cwd=folder,
        env=environ(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("absent.py", "there is no script absent.py"),
        ("package", "without a __main__.py"),
        ("pipe.py", "not a regular file"),
        ("-m ../sim.py", "give a module's name"),
        ("--gpus 0 --cpu 2 sim.py", "are mutually exclusive"),
        ("--cpu 0 sim.py", "at least 1"),
        ("--cpu many sim.py", "'many' is not a valid integer"),
        ("--cpu 2", "Missing argument 'SCRIPT'"),
        ("--env =1 sim.py", "KEY=VALUE"),
        ("--env A sim.py", "KEY=VALUE"),
        ("--log-max 2 sim.py", "a size of at least 1M, such as 500M or 2G, or none"),
        ("--log-max 900K sim.py", "at least 1M"),
        ("--interval 0 sim.py", "from 0.2 to 60"),
        ("--interval nan sim.py", "from 0.2 to 60"),
        ("--notify= sim.py", "--notify is empty"),
        ("--start later sim.py", "'later' is not one of 'gated', 'together', 'staggered'"),
        ("--virtual-local-rank sim.py", "give --ddp too"),
        ("--flight-recorder sim.py", "give --ddp too"),
        ("--ddp 0 sim.py", "--ddp 0: give the number of ranks"),
        ("--ddp --start gated sim.py", "they start together"),
        ("--cpu 2 --ddp 3 sim.py", "a group of 3 needs as many slots, and there are 2"),
        ("--ddp 2", "Missing argument 'SCRIPT'"),
        ("--restart maybe sim.py", "'maybe' is not one of 'never', 'startup', 'failure', 'always'"),
        ("--max-restarts -1 sim.py", "--max-restarts -1: give a number from 0"),
        ("--stuck-after 0 sim.py", "--stuck-after 0: give a number from 2 to"),
        ("--sigint-wait -1 sim.py", "--sigint-wait -1: give a number from 0 to"),
        ("--sigterm-wait inf sim.py", "--sigterm-wait inf: give a number from 0 to"),
        ("--summary absent/s.json sim.py", "there is no folder"),
        ("--summary package sim.py", "path of a file"),
        ("--summary loop sim.py", "Too many levels of symbolic links"),
        ("--summary /dev/stdout --detach sim.py", "with --detach nobody is there to take it"),
        ("--python absent sim.py", "absent"),
        ("--python no-python sim.py", "no-python"),
        ("--python sim.py sim.py", "sim.py"),
        ("--name ../x --cpu 1 sim.py", "--name"),
        ("--theme pink --cpu 1 sim.py", "dark, light, ansi, contrast"),
        ("--unknown sim.py", "No such option"),
        ("--python bin/no-genesis demo", "pip install"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(folder: Path, words: str, named: str) -> None:
    done = _gmg(folder, *words.split())
    assert named in _complaint(done)
    assert done.returncode == 2


def test_a_state_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    done = _gmg(folder, "--cpu", "1", "sim.py", XDG_STATE_HOME=str(folder / "sim.py"))
    assert "XDG_STATE_HOME" in _complaint(done)
    assert done.returncode == 1


def test_arguments_that_are_no_text_are_refused(folder: Path) -> None:
    done = subprocess.run(
        [*_COMMAND, "--cpu", "1", "sim.py", b"\xff"], cwd=folder, env=environ(), capture_output=True, text=True
    )
    assert "not UTF-8" in _complaint(done)


@pytest.mark.parametrize("gpus", ["9", "0,9", "0,0", "GPU-unknown", "0", "-1", "", "x"])
def test_gpus_that_are_not_there_are_wrong_usage(folder: Path, sim: Sim, gpus: str) -> None:
    done = _gmg(folder, f"--gpus={gpus}", "sim.py", **sim.env())
    _complaint(done)
    assert done.returncode == 2


def test_without_a_driver_the_cpu_is_named(folder: Path, sim: Sim) -> None:
    sim.no_driver()
    done = _gmg(folder, "sim.py", **sim.env())
    assert "--cpu" in _complaint(done)
    assert done.returncode == 2
    assert "no GPU" in _complaint(_gmg(folder, "gpus", **sim.env()))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_script_that_may_not_be_read_is_refused(folder: Path) -> None:
    (folder / "sim.py").chmod(0o000)
    # All that is imported later comes from folders that the other user may not read either.
    program = (
        "import os, gmg_tui.cli, gmg_tui.commands.run; os.setuid(65534); gmg_tui.cli.main(['--cpu', '1', 'sim.py'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environ(), capture_output=True, text=True)
    assert "sim.py" in _complaint(done)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("term", "size", "named"), [("dumb", (24, 80), "TERM is dumb"), ("xterm", (24, 19), "19 by 24")]
)
def test_a_terminal_that_cannot_show_the_screen_names_headless(
    folder: Path, term: str, size: tuple[int, int], named: str
) -> None:
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "gmg_tui", "--cpu", "1", "sim.py"],
        env=environ(TERM=term),
        cwd=str(folder),
        dimensions=size,
    )
    said = terminal.read().decode()
    assert named in said
    assert "--headless" in said
    assert terminal.wait() == 2
