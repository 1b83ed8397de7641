"""Options of gmg-tui that stand after the script: where the script refuses them, the correct order is shown."""

from pathlib import Path

import pytest

from tests.cli.scripted import gmg

_ARGPARSE = "import argparse; parser = argparse.ArgumentParser(); parser.add_argument('--lr'); parser.parse_args()"
_BOX = "import sys; print('╭─ Error ─╮\\n│ No such option: --gpus │\\n╰─────────╯', file=sys.stderr); sys.exit(2)"
_OWN = (
    "import argparse; parser = argparse.ArgumentParser(); parser.add_argument('--gpus', type=int); parser.parse_args()"
)
_ORDER = "gmg-tui's --gpus goes before the script: gmg-tui --gpus … sim.py"


@pytest.mark.parametrize(
    ("script", "args", "advised"),
    [
        (_ARGPARSE, ("--gpus=0,1", "--lr", "1"), True),
        (_BOX, ("--gpus", "0,1"), True),
        (_OWN, ("--gpus", "many"), False),
    ],
)
def test_the_correct_order_is_advised_when_the_script_rejects_our_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, args: tuple[str, ...], advised: bool
) -> None:
    (tmp_path / "sim.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    done = gmg("--cpu", "1", "sim.py", *args)
    assert done.returncode == 1, done
    assert "cpu0 failed: " in done.stdout
    assert (_ORDER in done.stdout) is advised, done.stdout
