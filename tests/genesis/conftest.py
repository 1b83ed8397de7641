"""Tests of this folder run the real Genesis; they share one warm cache."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "gmg_tui" / "examples"


@pytest.fixture(scope="session")
def genesis_cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where Genesis and Quadrants keep what they have prepared and compiled."""
    if importlib.util.find_spec("genesis") is None:
        pytest.skip("genesis-world is not installed: pip install 'gmg-tui[genesis]'")
    folder = tmp_path_factory.mktemp("cache")
    return {"GS_CACHE_FILE_PATH": str(folder / "genesis"), "QD_OFFLINE_CACHE_FILE_PATH": str(folder / "quadrants")}


@pytest.fixture
def light(genesis_cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the light example, with the shared cache in the environment."""
    for name, value in genesis_cache.items():
        monkeypatch.setenv(name, value)
    return str(EXAMPLES / "light.py")


@pytest.fixture
def franka(genesis_cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the Franka example, with the shared cache in the environment."""
    for name, value in genesis_cache.items():
        monkeypatch.setenv(name, value)
    return str(EXAMPLES / "franka.py")
