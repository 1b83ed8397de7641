"""Fixtures of the tests of scripts."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def visible() -> Iterator[Path]:
    """A folder that all users can enter, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="gmg-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
