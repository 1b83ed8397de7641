"""Whether a script uses Genesis, told from its text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gmg_tui.genesis.script_imports import may_use_genesis


def _files(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return folder / "sim.py"


def test_a_script_that_imports_it(tmp_path: Path) -> None:
    assert may_use_genesis(_files(tmp_path, sim="import genesis as gs\n"))


def test_a_script_that_has_nothing_to_do_with_it(tmp_path: Path) -> None:
    assert not may_use_genesis(_files(tmp_path, sim="import time\nfrom torch import nn\n", other="import genesis"))


@pytest.mark.parametrize("text", ["from env import Env\n", "import env.robot\n", "    from .env import Env\n"])
def test_a_script_whose_neighbour_imports_it(tmp_path: Path, text: str) -> None:
    assert may_use_genesis(_files(tmp_path, sim=text, env="from deep import x\n", deep="import genesis\n"))


def test_a_package_beside_the_script(tmp_path: Path) -> None:
    assert may_use_genesis(_files(tmp_path, sim="import robots\n", robots__arm="import genesis\n"))


def test_neighbours_that_import_each_other(tmp_path: Path) -> None:
    assert not may_use_genesis(_files(tmp_path, sim="import one\n", one="import two\n", two="import one\n"))


def test_what_cannot_be_read_may_use_it(tmp_path: Path) -> None:
    assert may_use_genesis(tmp_path / "nowhere.py")


def test_a_folder_with_a_main(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("import genesis\n")
    assert may_use_genesis(tmp_path)


def test_a_script_of_blank_lines_takes_no_longer_than_another(tmp_path: Path) -> None:
    script = _files(tmp_path, sim="\n" * 60_000 + "x = 1\n")
    started = time.process_time()
    assert not may_use_genesis(script)
    assert time.process_time() - started < 1.0
