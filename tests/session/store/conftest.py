"""A small file system to be filled, and a writer whose troubles are kept."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gmg_tui.session import STORE
from gmg_tui.session.store.writer import StoreWriter
from tests.disks import mounted


class Troubles:
    """The troubles that a writer has reported."""

    def __init__(self) -> None:
        self.lines: list[str | None] = []

    @property
    def now(self) -> str | None:
        return self.lines[-1] if self.lines else None

    def __call__(self, line: str | None) -> None:
        assert line is None or "\n" not in line
        self.lines.append(line)


Opened = Callable[..., tuple[StoreWriter, Troubles]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sim-1"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def opened(folder: Path) -> Opened:
    """Starts a writer of the store in the session's folder."""

    def start(export: Callable[[], None] | None = None) -> tuple[StoreWriter, Troubles]:
        troubles = Troubles()
        writer = StoreWriter(folder / STORE, troubles, export=export)
        writer.start()
        return writer, troubles

    return start


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """The session's folder, on a file system of 1 MiB."""
    with mounted(folder, "-t", "tmpfs", "-o", "size=1m,mode=700", "gmg-tui-test") as disk:
        yield disk
