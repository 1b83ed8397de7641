"""A session's name is taken while a launcher or an engine lives, or files are left; not by a launcher that was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import ROOT, environ

_GMG = (sys.executable, "-m", "gmg_tui")
_JOB = str(ROOT / "tests" / "job.py")
_PLAIN = ("--cpu", "1", "--name", "far", _JOB)
_SWEEP = ("sweep", "--cpu", "1", "--name", "far", "--script", _JOB, "--set", "x=1,2", "--args", "--value {x}")
_INSTEAD_OF_THE_ORDER = """
import os, signal, sys
from gmg_tui import cli
from gmg_tui.commands import run
def order(*_, **__):
    print("made", flush=True)
    {action}
run.launch = order
cli.main(sys.argv[1:])
"""


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_GMG, *words], capture_output=True, text=True, env=environ())


def _broken_off(action: str, *words: str) -> list[str]:
    """The command line of a launcher that does `action` when it has made the folder, instead of giving the order."""
    return [sys.executable, "-c", _INSTEAD_OF_THE_ORDER.format(action=action), *words]


@pytest.mark.parametrize("killed", [_PLAIN, _SWEEP])
@pytest.mark.parametrize("words", [_PLAIN, _SWEEP])
def test_the_folder_of_a_killed_launcher_is_taken_over(killed: tuple[str, ...], words: tuple[str, ...]) -> None:
    dead = subprocess.run(_broken_off("os.kill(os.getpid(), signal.SIGKILL)", *killed), env=environ())
    assert dead.returncode == -9
    assert (sessions.sessions_folder() / "far" / "logs").is_dir()
    done = _gmg(*words)
    assert done.returncode == 0, done
    found = sessions.find("far", running=False)
    assert (found.state, found.record.session.spec.sweep is not None) == ("ended", words is _SWEEP)


def test_the_folder_of_a_launcher_that_lives_is_not() -> None:
    command = _broken_off("sys.stdin.read()", *_PLAIN)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ()) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"made\n"
        refused = _gmg(*_PLAIN)
        launcher.kill()
    assert refused.returncode == 2
    assert refused.stderr.startswith("gmg-tui: --name far: there already is a session of that name")
    assert _gmg(*_PLAIN).returncode == 0


@pytest.mark.parametrize("left", ["session.json", "engine.log", "logs/cpu0.log", "notes.txt"])
def test_a_folder_that_holds_more_is_left_alone(left: str) -> None:
    path: Path = sessions.sessions_folder() / "far" / left
    path.parent.mkdir(parents=True)
    path.write_text("kept")
    assert _gmg(*_PLAIN).returncode == 2
    assert path.read_text() == "kept"
