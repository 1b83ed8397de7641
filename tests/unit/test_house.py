"""The arrows between the parts at run time, in a fresh interpreter: what is imported by what."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _loaded(module: str) -> set[str]:
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("gmg_tui.engine.__main__", ("textual", "rich", "click", "gmg_tui.ui", "gmg_tui.client", "torch", "genesis")),
        ("gmg_tui.cli", ("textual", "rich", "asyncio", "pynvml", "psutil", "torch", "genesis")),
        ("gmg_tui.ui.app", ("gmg_tui.engine", "pynvml", "psutil", "click", "torch", "genesis")),
        ("gmg_tui.headless", ("textual", "rich", "gmg_tui.engine", "pynvml", "torch", "genesis")),
    ],
)
def test_a_part_does_not_load_what_it_must_not_know(module: str, never: tuple[str, ...]) -> None:
    loaded = _loaded(module)
    assert module.removesuffix(".__main__") in loaded
    assert loaded.isdisjoint(never)
