"""What is below the screen names no key: users may have set others (`[keys]`), which only the screen knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gmg_tui

_KEY = re.compile(r"(?<![\w'{\-.$+%])[b-zB-HJ-Z] (shows|skips|stops|restarts|runs|kills|detaches|in the queue)\b")
_ROOMS = ("engine", "genesis", "gpu", "ddp", "model", "tune", "sweep", "store", "commands")


def _said(source: str) -> list[str]:
    """The texts of a module, in the order of its lines; parts of f-strings singly."""
    nodes = ast.walk(ast.parse(source))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.parametrize("room", _ROOMS)
def test_texts_below_the_screen_name_no_key(room: str) -> None:
    files = sorted((Path(gmg_tui.__file__).parent / room).rglob("*.py"))
    assert files
    found = {str(file): text for file in files for text in _said(file.read_text()) if _KEY.search(text)}
    assert not found
