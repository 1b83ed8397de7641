"""Logs that a node keeps, brought in parts to the session's folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gmg_tui.engine.nodes.logs_kept import LogsKept
from gmg_tui.engine.nodes.messages import Piece
from gmg_tui.logs import cut as log_cut

_LOG = "logs/n1/cpu0.log"
_PIECE_BYTES = 1 << 20


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
def kept(there: Path, here: Path) -> LogsKept:
    async def piece(path: str, offset: int) -> Piece:
        assert path == _LOG
        if not there.exists():
            return Piece(1, b"")
        with there.open("rb") as file:
            file.seek(offset)
            return Piece(1, file.read(_PIECE_BYTES), there.stat().st_ino)

    logs = LogsKept(piece, here.parents[2])
    logs.add(_LOG)
    return logs


def _lines(count: int) -> bytes:
    return b"".join(b"line %09d of the log\n" % number for number in range(count))


async def test_a_log_comes_in_parts_and_goes_on_where_it_was(kept: LogsKept, there: Path, here: Path) -> None:
    assert await kept.bring(_LOG, 60.0) == (0, False)
    there.write_bytes(_lines(100_000))
    assert await kept.bring(_LOG, 0.0) == (_PIECE_BYTES, True)
    assert await kept.bring(_LOG, 60.0) == (there.stat().st_size, False)
    with there.open("ab") as file:
        file.write(b"the last line\n")
    await kept.bring_all()
    assert here.read_bytes() == there.read_bytes()


async def test_a_log_whose_middle_is_cut_out_comes_whole_again(kept: LogsKept, there: Path, here: Path) -> None:
    here.parent.mkdir(parents=True)
    here.write_bytes(b"what an earlier engine has left\n")
    there.write_bytes(_lines(200_000))
    await kept.bring_all()
    log_cut.cut(there, 1 << 20)
    await kept.bring_all()
    assert here.read_bytes() == b"what an earlier engine has left\n" + there.read_bytes()
    assert b"bytes are cut out here" in here.read_bytes()


async def test_who_asked_may_go_while_it_comes(kept: LogsKept, there: Path, here: Path) -> None:
    there.write_bytes(_lines(500_000))
    for _ in range(20):
        asking = asyncio.create_task(kept.bring(_LOG, 0.0))
        await asyncio.sleep(0)
        asking.cancel()
    await kept.bring_all()
    assert here.read_bytes() == there.read_bytes()
