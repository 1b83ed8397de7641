"""Options of gmg-tui that stand after the script: where the script refuses them, the right order is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripted import environ

_ARGPARSE = "import argparse; parser = argparse.ArgumentParser(); parser.add_argument('--lr'); parser.parse_args()"
_OWN_GPUS = (
    "import argparse; parser = argparse.ArgumentParser(); parser.add_argument('--gpus', type=int); parser.parse_args()"
)
_CLICK = "import click\n@click.command()\n@click.option('--lr')\ndef main(lr): pass\nmain()"
_BOX = "import sys; print('╭─ Error ─╮\\n│ No such option: --gpus │\\n╰─────────╯', file=sys.stderr); sys.exit(2)"
_OTHER = "import sys; sys.exit(int('--gpus' in sys.argv) + 1)"
_ORDER = "gmg-tui's --gpus goes before the script: gmg-tui --gpus … sim.py"


@pytest.mark.parametrize(
    ("script", "args", "advised"),
    [
        (_ARGPARSE, ("--gpus", "0,1"), True),
        (_ARGPARSE, ("--gpus=0,1", "--lr", "1"), True),
        (_ARGPARSE, ("--lr", "1", "--batch", "3"), False),
        (_CLICK, ("--gpus", "0,1"), True),
        (_BOX, ("--gpus", "0,1"), True),
        (_OWN_GPUS, ("--gpus", "many"), False),
        (_OWN_GPUS, ("--gpus", "2", "--name-it", "x"), False),
        (_OTHER, ("--gpus", "0,1"), False),
    ],
)
def test_the_order_is_advised_where_the_script_refuses_an_option_of_ours(
    tmp_path: Path, script: str, args: tuple[str, ...], advised: bool
) -> None:
    (tmp_path / "sim.py").write_text(script)
    command = [sys.executable, "-m", "gmg_tui", "--cpu", "1", "sim.py", *args]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, text=True)
    assert done.returncode == 1, done
    assert "cpu0 failed: " in done.stdout
    assert (_ORDER in done.stdout) is advised, done.stdout
