"""Recognition of scripts that cannot use Genesis."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.scripts.script_imports import may_use_genesis


@pytest.mark.parametrize(
    ("script", "beside", "may"),
    [
        ("import time\ntime.sleep(1)\n", "", False),
        ("import time\ntime.sleep(16)\nimport genesis as gs\n", "", True),
        ("if True:\n    from train_envs import Go2\n", "", True),
        ("from os import path\nimport beside\n", "import json\n", False),
        ("import beside\n", "import genesis\n", True),
        ("import beside\n", "import script\n", False),
        ("import subprocess\nsubprocess.run(['python', 'other.py'])\n", "", True),
    ],
)
def test_imports_show_whether_a_script_may_use_genesis(tmp_path: Path, script: str, beside: str, may: bool) -> None:
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "beside.py").write_text(beside)
    assert may_use_genesis(tmp_path / "script.py") is may


def test_a_script_that_cannot_be_read_may_use_it(tmp_path: Path) -> None:
    assert may_use_genesis(tmp_path / "gone.py")
