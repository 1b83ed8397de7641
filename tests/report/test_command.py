"""`gmg-tui report` as a real process, on stores as engines leave them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.results import DETAILED, SUMMARY
from gmg_tui.results.detailed import moment
from gmg_tui.session import STORE
from gmg_tui.store.records import Event
from gmg_tui.store.writer import StoreWriter
from tests.store import records

from . import stored

_WITHOUT_PLOTLY = """
import runpy, sys
sys.modules["plotly"] = None
runpy.run_module("gmg_tui", run_name="__main__")
"""


async def _gmg(*words: str, program: tuple[str, ...] = ("-m", "gmg_tui")) -> tuple[str, str, int | None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, "report", *words, stdout=PIPE, stderr=PIPE, env={**os.environ, "COLUMNS": "80"}
    )
    out, err = await process.communicate()
    return out.decode(), err.decode(), process.returncode


async def test_the_newest_session_without_a_name() -> None:
    await stored.session("old", stored.jobs(2))
    await stored.session("young", stored.jobs(3), started=records.START + 5)
    out, err, status = await _gmg()
    assert (err, status) == ("", 0)
    assert out.startswith("young  ended  sim.py  since 20")
    assert "3 jobs, by tm_score, the largest first" in out
    assert (await _gmg("old"))[0].startswith("old  ended")


async def test_json_and_csv_are_the_results_files() -> None:
    folder = await stored.session("sim-1", stored.jobs(12))
    out, err, status = await _gmg("--json")
    assert (err, status) == ("", 0)
    assert out == (folder / DETAILED).read_text().removesuffix("}\n") + ',\n"health": []}\n'
    assert await _gmg("--csv") == ((folder / SUMMARY).read_text(), "", 0)


async def test_json_has_what_happened_to_the_gpus_health() -> None:
    seen = [
        Event(records.START, "xid", "GPU 3 (GPU-3): Xid 79: the GPU has fallen off the bus; reboot", "n1/gpu3"),
        Event(records.START + 1, "xid", "GPU-4: Xid 13 (2 times by now): a kernel failed; look at it", ""),
        Event(records.START + 2, "health", "GPU 3 (GPU-3): 1 uncorrected ECC error, 1 more than before", "n1/gpu3"),
        Event(records.START + 3, "note", "GPU 3 (GPU-3): nothing of health"),
    ]
    await stored.session("sim-1", stored.jobs(1), events=seen)
    told = json.loads((await _gmg("--json"))[0])["health"]
    third = {"index": 3, "uuid": "GPU-3"}
    keys = ("kind", "slot", "gpu", "code", "text")
    assert [tuple(one[key] for key in keys) for one in told] == [
        ("xid", "n1/gpu3", third, 79, "Xid 79: the GPU has fallen off the bus; reboot"),
        ("xid", None, {"index": None, "uuid": "GPU-4"}, 13, "Xid 13 (2 times by now): a kernel failed; look at it"),
        ("health", "n1/gpu3", third, None, "1 uncorrected ECC error, 1 more than before"),
    ]
    assert told[0]["time"] == moment(records.START)


async def test_without_plotly_the_page_has_its_tables_and_one_line_says_what_to_install(tmp_path: Path) -> None:
    await stored.session("sim-1", stored.jobs(3), rows=stored.metrics())
    file = tmp_path / "page.html"
    out, err, status = await _gmg("--html", str(file), program=("-c", _WITHOUT_PLOTLY))
    assert (out, status) == (f"{file}\n", 0)
    assert err == (
        "gmg-tui: the page has no charts: plotly is not installed; get it with: pip install 'gmg-tui[report]'\n"
    )
    bare = file.read_text()
    assert (await _gmg("--html", str(file)))[1:] == ("", 0)
    full = file.read_text()
    assert "plotly" in full
    assert not re.search("plotly|Over time", bare.replace("Plotly.relayout", ""))
    jobs = re.compile(r'<table id="jobs">.*?</table>', re.DOTALL)
    assert jobs.findall(bare) == jobs.findall(full)
    assert bare.count("<tr class=") == 3


async def test_a_lost_session_has_what_its_store_has_though_its_files_are_old() -> None:
    folder = await stored.session("sim-1", stored.jobs(2), ended=False)
    old = (folder / SUMMARY).read_text()
    writer = StoreWriter(folder / STORE, lambda line: None)
    writer.start()
    writer.job(JobRecord(3, "job-3", state=WorkerState.RUNNING, slot="cpu0", started=records.START))
    await writer.close()
    out, _, status = await _gmg("sim-1")
    assert status == 0
    assert "sim-1  lost" in out
    assert "1 job running when the engine died" in out
    assert "sim-1 was lost" in out
    table, _, _ = await _gmg("--csv")
    assert table.startswith(old.splitlines()[0])
    assert "3,job-3,running" in table


async def test_a_running_session(tmp_path: Path) -> None:
    folder = await stored.session("sim-1", stored.jobs(2), ended=False)
    descriptor = sessions.lock(folder)  # as its engine does
    writer = StoreWriter(folder / STORE, lambda line: None)
    writer.start()
    writer.job(JobRecord(3, "job-3", state=WorkerState.RUNNING, slot="cpu0", started=records.START))
    try:
        out, _, status = await _gmg("sim-1", "--best", "job")
        await writer.close()
    finally:
        os.close(descriptor)
    assert status == 0
    assert out.startswith("sim-1  running")
    assert "died" not in out


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (["nobody"], "gmg-tui: no session nobody; there are: sim-1\n", 1),
        (["--json", "--csv"], "gmg-tui: --json, --csv and --html are mutually exclusive; give one of them\n", 2),
        (["--html", "/nowhere/at/all.html"], "gmg-tui: --html /nowhere/at/all.html: No such file or directory\n", 1),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_line(words: list[str], said: str, status: int) -> None:
    await stored.session("sim-1", stored.jobs(2))
    assert await _gmg(*words) == ("", said, status)


async def test_a_session_without_a_store_is_said() -> None:
    folder = await stored.session("sim-1", stored.jobs(2))
    (folder / STORE).unlink()
    out, err, status = await _gmg()
    assert (out, status) == ("", 1)
    assert "there is no store" in err
    assert err.count("\n") == 1


async def test_an_unknown_column_is_said_with_those_that_are() -> None:
    await stored.session("sim-1", stored.jobs(2))
    out, err, status = await _gmg("--best", "nope")
    assert (out, status) == ("", 2)
    assert "there are: job, name, state," in err
