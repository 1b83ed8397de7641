"""How the words of a command line are told apart."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gmg_tui.cli import arrange
from gmg_tui.commands.options import RunOptions
from tests.cli.scripted import environ

_OTHERS = ("ascii_only", "script_patterns")
"""Fields that are no options by their names."""

_OTHERS = ("ascii_only", "script_patterns")
"""Fields that are no options by their names."""


@pytest.mark.parametrize(
    ("words", "arranged"),
    [
        ("sim.py", "run sim.py"),
        ("sim.py ls -h --gpus 2 -- x", "run sim.py ls -h --gpus 2 -- x"),
        ("--cpu 2 sim.py --cpu 3", "run --cpu 2 sim.py --cpu 3"),
        ("--name=ls sim.py", "run --name=ls sim.py"),
        ("--name ls sim.py", "run --name ls sim.py"),
        ("--cpu 2 run sim.py", "run --cpu 2 sim.py"),
        ("--headless demo -B 4", "demo --headless -B 4"),
        ("run ls", "run ls"),
        ("-m pkg.mod", "run -m pkg.mod"),
        ("--cpu 2 -- ls", "run --cpu 2 -- ls"),
        ("--json gpus", "gpus --json"),
        ("--cpu 2 sweep f.toml --set a=1 -- run", "sweep --cpu 2 f.toml --set a=1 -- run"),
        ("--script sim.py sweep", "sweep --script sim.py"),
        ("-n 5 logs cpu0", "logs -n 5 cpu0"),
        ("ls --json", "ls --json"),
        ("-h", "-h"),
        ("--help sim.py", "--help"),
        ("-h run", "run -h"),
        ("--version", "--version"),
        ("--name --help sim.py", "run --name --help sim.py"),
        ("--unknown sim.py", "run --unknown sim.py"),
        ("--ddp train.py --ddp 3", "run --ddp=all train.py --ddp 3"),
        ("--ddp 2 train.py 4", "run --ddp=2 train.py 4"),
        ("--gpus 4 --ddp 2 -m train", "run --gpus 4 --ddp=2 -m train"),
        ("run --ddp --cpu 2 train.py", "run --ddp=all --cpu 2 train.py"),
        ("--ddp run train.py", "run --ddp=all train.py"),
    ],
)
def test_the_command_comes_first_and_a_script_keeps_its_own(words: str, arranged: str) -> None:
    assert arrange(words.split()) == arranged.split()


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gmg_tui", *words], capture_output=True, text=True, env=environ())


def test_the_help_shows_every_command_and_every_option_of_run() -> None:
    done = _gmg("--help")
    assert done.returncode == 0
    params = [f"--{name.replace('_', '-')}" for name in RunOptions._fields if name not in _OTHERS]
    commands = ["run", "demo", "sweep", "gpus", "ls", "attach", "stop", "logs", "doctor"]
    for word in (*commands, *params, "--ascii", "--module", "--version", "--help"):
        assert re.search(rf"^ .*{word}\b", done.stdout, re.MULTILINE), word


def test_without_a_word_the_help_is_shown_as_wrong_usage() -> None:
    done = _gmg()
    assert done.stdout.startswith("Usage: gmg-tui [OPTIONS] SCRIPT")
    assert done.returncode == 2


def test_the_command_line_alone_imports_neither_the_screen_nor_the_cards() -> None:
    program = (
        "import sys, gmg_tui.cli, gmg_tui.commands.run, gmg_tui.commands.logs;"
        "print([name for name in ('textual', 'rich', 'asyncio', 'pynvml', 'psutil') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ(), check=True)
    assert done.stdout == "[]\n"
