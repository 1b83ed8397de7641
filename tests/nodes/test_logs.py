"""Logs that a node keeps, brought in parts to the session's folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gmg_tui.engine.nodes.logs import LogCopies
from gmg_tui.logs import cut as log_cut
from gmg_tui.protocol import LogPart

_LOG = "logs/n1/cpu0.log"
_PART_BYTES = 256 << 10
Read = Callable[[str, int], Awaitable[LogPart]]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The log on its node."""
    path = tmp_path / "there" / _LOG
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The log in the session's folder."""
    return tmp_path / "here" / _LOG


@pytest.fixture
def read(there: Path) -> Read:
    async def part(path: str, offset: int) -> LogPart:
        assert path == _LOG
        if not there.exists():
            return LogPart()
        with there.open("rb") as file:
            file.seek(offset)
            return LogPart(file.read(_PART_BYTES), there.stat().st_ino)

    return part


@pytest.fixture
def logs(here: Path) -> LogCopies:
    return LogCopies(here.parents[2])


async def copy(logs: LogCopies, read: Read) -> None:
    logs.check(_LOG, object())
    await logs.catch_up(read)


def _lines(count: int) -> bytes:
    return b"".join(b"line %09d of the log\n" % number for number in range(count))


async def test_a_log_whose_middle_is_cut_out_comes_whole_again(
    logs: LogCopies, read: Read, there: Path, here: Path
) -> None:
    here.parent.mkdir(parents=True)
    here.write_bytes(b"what an earlier engine has left\n")
    there.write_bytes(_lines(200_000))
    await copy(logs, read)
    log_cut.cut(there, 1 << 20)
    await copy(logs, read)
    assert here.read_bytes() == b"what an earlier engine has left\n" + there.read_bytes()
    assert b"bytes are cut out here" in here.read_bytes()
