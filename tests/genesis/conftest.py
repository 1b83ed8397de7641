"""Tests of this folder run the real Genesis; they share one warm cache, which the first of them fills.

A cache that the environment names is used instead, and is warm the next time.
"""

import importlib.util
import os
from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.environ import thread_share

THREADS = ("OMP_NUM_THREADS", "QD_NUM_THREADS")
EXAMPLES = Path(__file__).parents[2] / "gmg_tui" / "examples"


@pytest.fixture(scope="session")
def genesis_cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where Genesis and Quadrants keep what they have prepared and compiled, and what kernels are compiled for.

    A kernel that was compiled for another number of threads is of no use, and the engine gives a worker as many as there
    are cores for it. With what it gives each of two, all tests compile once, which takes a minute.
    """
    if importlib.util.find_spec("genesis") is None:
        pytest.skip("genesis-world is not installed: pip install 'gmg-tui[genesis]'")
    folder = tmp_path_factory.mktemp("cache")
    return {
        **{
            name: os.environ.get(name, str(folder / name))
            for name in ("GS_CACHE_FILE_PATH", "QD_OFFLINE_CACHE_FILE_PATH")
        },
        **dict.fromkeys(THREADS, str(thread_share(len(os.sched_getaffinity(0)), 2))),
    }


@pytest.fixture
def light(genesis_cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the light example, with the shared cache in the environment."""
    for name, value in genesis_cache.items():
        monkeypatch.setenv(name, value)
    return str(EXAMPLES / "light.py")
