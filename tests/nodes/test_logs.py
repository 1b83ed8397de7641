"""Logs that a node keeps, copied in parts to the session's folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gmg_tui import files
from gmg_tui.engine.nodes.logs import KeptLogs, LogCopies
from gmg_tui.errors import GmgError

_LOG = "logs/n1/cpu0.log"


async def test_a_log_whose_middle_is_cut_out_is_copied_again(tmp_path: Path) -> None:
    there, here = tmp_path / "there" / _LOG, tmp_path / "here" / _LOG
    for path in (there, here):
        path.parent.mkdir(parents=True)
    here.write_bytes(b"from an earlier engine\n")
    there.write_bytes(b"".join(b"line %09d of the log\n" % number for number in range(200_000)))
    kept, copies = KeptLogs(str(tmp_path / "there"), shared=False), LogCopies(tmp_path / "here")
    for mark in (1, 2):
        assert not await kept.all_sent()
        copies.check(_LOG, mark)
        await copies.catch_up(kept.read)
        assert here.read_bytes() == b"from an earlier engine\n" + there.read_bytes()
        if mark == 1:
            assert await kept.all_sent()
            files.cut_log(there, 1 << 20)
            there.write_bytes(there.read_bytes() + b"and more\n" * 1_000_000)


@pytest.mark.timeout(30)
async def test_a_disk_that_does_not_answer_blocks_no_event_loop(tmp_path: Path) -> None:
    log = tmp_path / _LOG
    log.parent.mkdir(parents=True)
    os.mkfifo(log)  # opening it waits for a writer, which only the event loop is
    reading = asyncio.create_task(KeptLogs(str(tmp_path), shared=False).read(_LOG, 0))
    await asyncio.sleep(0)
    os.close(os.open(log, os.O_WRONLY))
    with pytest.raises(GmgError, match="cannot be read"):
        await reading
