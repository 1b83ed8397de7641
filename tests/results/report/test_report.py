"""`gmg-tui report` of one session: rows, order, totals, and every output."""

import asyncio
import contextlib
import json
import math
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.engine.attempts.gpu_use import Meter
from gmg_tui.model import (
    Attempt,
    Curve,
    Fps,
    Gpu,
    GpuSample,
    JobRecord,
    Queue,
    Slot,
    Snapshot,
    SweepSpec,
    TrialState,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tried import below_median
from gmg_tui.results import report_text as text
from gmg_tui.results.json_csv_export import TABLE_FILE
from gmg_tui.results.report import ReportData, sort_jobs
from gmg_tui.scripts.genesis.output.printed_rate import PrintedRate
from gmg_tui.session import STORE
from gmg_tui.session.store import database
from gmg_tui.session.store.database import AttemptCurves, JobAttempt
from tests import tunings
from tests.cli.scripted import COMMAND, environ
from tests.results.report import stored
from tests.results.report.stored import report
from tests.session.store import records
from tests.session.store.records import START, attempt_of, finished
from tests.workers import worker_of


def _data(*jobs: JobRecord, attempts: tuple[JobAttempt, ...] | None = None, state: str = "ended") -> ReportData:
    by_job: dict[int, list[JobAttempt]] = {}
    for attempt in [attempt_of(job) for job in jobs if job.started] if attempts is None else attempts:
        by_job.setdefault(attempt.job, []).append(attempt)
    return ReportData(
        "sim-1", Path("/sim-1"), state, records.session(Path("/sim-1")), START + 1000, list(jobs), by_job, None
    )


def _ran(number: int, begin: float, end: float, **more: Any) -> JobRecord:
    return finished(number, started=START + begin, ended=START + end, elapsed_s=end - begin, **more)


def test_totals_are_those_of_all_jobs_and_of_all_engines() -> None:
    data = _data(_ran(1, 0, 100), _ran(2, 0, 100), _ran(3, 100, 200, energy_j=3600.0))
    resumed = Snapshot(START, 40.0, (), queue=Queue(0, 0, 3, 0, 0, version=1, before_s=160.0))
    assert (data.states, data.totals) == ({"finished": 3}, [("energy", "1.0 Wh")])
    assert structs.replace(data, snapshot=resumed).totals[0] == ("time", "00:03:20")


def test_the_time_of_a_plain_run_excludes_the_wait_for_the_gate() -> None:
    (row,) = _data(structs.replace(_ran(1, 20, 100), elapsed_s=100.0)).rows()
    assert row.elapsed_s == 80.0


def test_a_running_job_counts_up_to_the_record_and_an_attempt_lost_with_its_engine_has_no_time() -> None:
    job = JobRecord(1, "a", state=WorkerState.RUNNING, slot="cpu0", started=START + 400, last=Attempt(2), elapsed_s=3.0)
    first = attempt_of(job, 1, state=WorkerState.STOPPED, started=START + 10, ended=None)
    second = attempt_of(job, 2, state=WorkerState.RUNNING, started=START + 400, ended=None)
    data = _data(job, attempts=(first, second), state="running")
    assert [row.elapsed_s for row in data.rows()] == [None, 600.0]
    data = structs.replace(data, session=records.session(Path("/sim-1")))
    assert "as recorded at" in data.heading
    assert "as recorded at" not in structs.replace(data, state="ended").heading
    cut_off = Snapshot(START + 2, 2.0, (worker_of("cpu0", 0, WorkerState.RUNNING),))
    assert "as recorded at" in structs.replace(data, state="ended", snapshot=cut_off).heading


def test_each_attempt_is_a_row_with_its_result() -> None:
    job = finished(1, args=("-B", "32"), energy_j=100.0)
    reached = {"fps": Fps(5.0, 5.0, 5.0, 1), "n_envs": 64, "memory_peak_mib": 9.0}
    first = attempt_of(job, 1, state=WorkerState.FAILED, args=("-B", "64"), reason="oom", **reached)
    last = attempt_of(job, 2, args=("-B", "32"))
    rows = _data(job, attempts=(first, last)).rows()
    assert [(row.state.value, row.last.args, row.last.rate) for row in rows] == [
        ("failed", ("-B", "64"), 5.0),
        ("finished", ("-B", "32"), 90.0),
    ]
    assert [row.energy_j for row in rows] == [None, 100.0]
    assert "args" in text.render(_data(job, attempts=(first, last)), None, None, False)
    again = structs.replace(first, attempt=structs.replace(first.attempt, args=("-B", "32")))
    assert "args" not in text.render(_data(job, attempts=(again, last)), None, None, False)
    ranks = tuple(structs.replace(last, rank=rank) for rank in range(4))
    assert len(_data(job, attempts=ranks).rows()) == 1


def test_the_rate_is_steps_by_wall_time_and_its_energy_that_of_the_same_seconds() -> None:
    counted, meter = PrintedRate(), Meter()
    for second in range(30):  # building for 5 s, 12 s at 1,000 FPS, 8 s at 100 FPS, then ending
        steps = 1000 * min(second - 5, 12) + 100 * min(max(0, second - 17), 8)
        if 5 <= second <= 25:
            counted.count(steps, float(second))
        power_w = 320.0 if 5 < second <= 25 else 50.0
        ran = (5.0, min(second, 25.0)) if second > 5 else None
        meter.add(GpuSample("u", power_w=power_w, energy_j=None), running=True, now=float(second), counted=ran)
    fps = counted.fps()
    assert fps is not None
    assert (fps.mean, fps.env_steps, fps.seconds) == (640.0, 12_800.0, 20.0)
    fps = structs.replace(fps, energy_j=20.0 * (meter.counted_power_w or 0.0))
    table = text.render(_data(finished(1, fps=fps)), None, None, False).splitlines()
    assert " 640  " in table[1]
    assert fps.env_steps_per_j == pytest.approx(2.0, rel=0.03)


def _rows(scores: dict[int, Any]) -> list[JobRecord]:
    return [JobRecord(number, "a", result={"score": score}) for number, score in scores.items()]


def test_equal_values_and_waiting_jobs_keep_their_order() -> None:
    ran = [structs.replace(row, state=WorkerState.FINISHED) for row in _rows({2: 0.5, 1: 0.5})]
    waiting = [JobRecord(4, "a"), JobRecord(3, "a")]
    assert [row.number for row in sort_jobs([*ran, *waiting], "score")[0]] == [1, 2, 4, 3]


@pytest.mark.parametrize(("best", "expected"), [("score", [3, 5, 1, 2, 4, 6, 7]), ("-score", [1, 5, 3, 2, 4, 6, 7])])
def test_the_best_sort_first_and_diverged_and_unknown_values_last(best: str, expected: list[int]) -> None:
    rows = _rows({1: 0.5, 2: "none", 3: 2**2000, 4: math.nan, 5: True, 6: math.inf, 7: None})
    assert [row.number for row in sort_jobs(rows, best)[0]] == expected


def test_a_loss_that_differs_in_the_fifth_digit_ranks_and_nan_is_last_in_either_order() -> None:
    rows = [
        JobRecord(number, "a", result={"loss": loss})
        for number, loss in enumerate((math.nan, 1.00041, 1.00039, 1.00012, 1.00045, math.inf, None), 1)
    ]
    assert [row.number for row in sort_jobs(rows, "-loss")[0]] == [4, 3, 2, 5, 1, 6, 7]
    assert [row.number for row in sort_jobs(rows, "loss")[0]] == [5, 2, 3, 4, 1, 6, 7]
    table = text.render(_data(*rows), "-loss", None, False).splitlines()
    assert [line.split()[-1] for line in table[1:8]] == [
        "1.00012",
        "1.00039",
        "1.00041",
        "1.00045",
        "nan",
        "inf",
        "–",
    ]


@pytest.mark.parametrize("best", ["FPS", "fps", "fps_mean", "-VRAM", "-vram gib"])
def test_an_order_is_by_the_name_or_heading_of_a_column(best: str) -> None:
    rows = [finished(1, memory_peak_mib=5.0)]
    _, column, text = sort_jobs(rows, best)
    assert column is not None
    assert ("smallest" in text) == best.startswith("-")


def test_a_failed_job_is_never_the_best_and_an_unknown_column_lists_the_valid_ones() -> None:
    rows = [
        JobRecord(1, "a", state=WorkerState.FAILED, result={"score": 9}),
        JobRecord(2, "b", state=WorkerState.FINISHED, result={"score": 1}),
    ]
    best, _, text = sort_jobs(rows, "score")
    assert text == "by score, the largest first"
    assert [row.number for row in best] == [2, 1]
    best, column, text = sort_jobs(rows, None)
    assert ([row.number for row in best], column) == ([1, 2], None)
    assert text == "unsorted"
    with pytest.raises(GmgError, match="no column nope; the columns are: job, name, state"):
        sort_jobs(rows, "-nope")


def test_a_result_with_the_name_of_a_column_can_be_sorted_by() -> None:
    rows = [JobRecord(number, "a", result={"env_steps": number}) for number in (1, 2)]
    best, _, text = sort_jobs(rows, "result_env_steps")
    assert text == "by env_steps, the largest first"
    assert [row.number for row in best] == [2, 1]


def _rated(rate: float) -> Attempt:
    return Attempt(1, fps=Fps(rate, rate, rate, 9), comparable=True)


def test_a_gpu_that_is_slower_than_the_others_is_named() -> None:
    rates = {"gpu0": 100.0, "gpu1": 101.0, "gpu2": 92.0, "gpu3": 100.0}
    slots = tuple(Slot(name, Gpu(n, name, "H100")) for n, name in enumerate(rates))
    rated = [(slot, _rated(rate)) for slot, rate in rates.items()]
    data = _data(*(JobRecord(n, slot, slot=slot, last=last) for n, (slot, last) in enumerate(rated, 1)))
    session = structs.replace(records.session(Path("/sim-1")), slots=slots)
    assert structs.replace(data, session=session).slow_slots == ["gpu2: 8 % below the median"]


def test_a_node_with_many_slots_and_false_rates_makes_no_slot_of_others_slow() -> None:
    def slow(**nodes: list[float]) -> dict[str, float]:
        return below_median(
            (Slot(f"{node}/gpu{n}", Gpu(n, f"{node}{n}", "H100"), node), _rated(rate))
            for node, rates in nodes.items()
            for n, rate in enumerate(rates)
        )

    honest = [100.0, 101.0, 99.0]
    assert slow(a=honest, b=honest, liar=[1000.0] * 64) == {}
    assert slow(a=honest, liar=[1000.0] * 64) == {}
    assert set(slow(a=honest, b=[100.0, 90.0], liar=[1000.0] * 64)) == {"b/gpu1"}
    assert set(slow(a=honest, b=honest, liar=[50.0] * 64)) == {f"liar/gpu{n}" for n in range(64)}


def test_a_narrow_terminal_names_dropped_columns_and_a_pipe_gets_all() -> None:
    jobs = [finished(n, memory_peak_mib=5e4, gpu_util_mean_pct=97.0, energy_j=1e4, slot="gpu0") for n in range(1, 60)]
    narrow = text.render(_data(*jobs), None, 80, False).splitlines()
    table = narrow[: next(n for n, line in enumerate(narrow) if line.startswith("no room for"))]
    assert max(map(len, table)) <= 80
    assert len(table) == 41
    assert "the first 40 of 59 jobs" in "\n".join(narrow)
    piped = text.render(_data(*jobs), None, None, False)
    assert "no room for" not in piped
    assert piped.count("\njob-") == 0
    assert len([line for line in piped.splitlines() if " job-" in line]) == 59
    assert {"slot", "VRAM", "energy", "tm_score"} <= set(piped.split("\n")[0].split())


def test_failures_are_grouped_by_reason_regardless_of_amounts() -> None:
    reasons = ["out of memory: 1.5 GiB", "exit code 1", "out of memory: 20 GiB", "exit code 2", "out of memory: 3 GiB"]
    jobs = [
        finished(n, state=WorkerState.FAILED, reason=reason)
        for n, reason in enumerate([*reasons, "out of memory: 2 MiB"], 1)
    ]
    lines = text.render(_data(*jobs), None, None, False).splitlines()
    assert [line for line in lines if " failed: " in line] == [
        "job-1, job-3, job-5 and 1 more failed: out of memory: 1.5 GiB",
        "job-2 failed: exit code 1",
        "job-4 failed: exit code 2",
    ]


def test_a_resumed_session_starts_with_its_first_attempt() -> None:
    data = _data(_ran(1, 0, 100))
    resumed = structs.replace(data.session, started=START + 500)
    heading = structs.replace(data, session=resumed).heading
    first, again = (time.strftime("%H:%M:%S", time.localtime(START + after)) for after in (0, 500))
    assert heading.index(first) < heading.index("resumed ") < heading.index(again)
    assert "resumed" not in data.heading


async def test_json_csv_and_page_are_in_the_requested_order(tmp_path: Path) -> None:
    await stored.session("sim-1", stored.jobs(4), spec={"sweep": SweepSpec(best="-lr")})
    assert [job["number"] for job in json.loads(report("--json", "--best", "tm_score")[0])["jobs"]] == [4, 3, 2, 1]
    assert [line.partition(",")[0] for line in report("--csv", "--best", "tm_score")[0].splitlines()[1:]] == [*"4321"]
    for words, best in ((["--best", "tm_score"], "job-4"), ([], "job-1")):
        assert report("--html", str(tmp_path / "page.html"), *words)[2] == 0
        body = (tmp_path / "page.html").read_text()
        assert body.count('<tr class="best">') == 1
        row = body[body.index('<tr class="best">') :]
        assert f">{best}<" in row[: row.index("</tr>")]
        assert body.index('<tr class="best">') < body.index('<tr class="finished">')
        assert body.index(f"best job: #{best[-1]} {best}") < body.index(">finished</dt>")


async def test_the_newest_session_without_a_name_and_its_failures() -> None:
    await stored.session("old", stored.jobs(2))
    await stored.session("young", stored.jobs(5), started=START + 5)
    out, err, status = report()
    assert (err, status) == ("", 0)
    assert out.startswith("young  ended  sim.py  since 20")
    assert "5 jobs, unsorted; sort with: gmg-tui report young --best COLUMN (tm_score)" in out
    assert "job-5 failed: out of memory" in out
    assert "4 finished, 1 failed" in out
    assert report("old")[0].startswith("old  ended")


async def test_the_total_of_a_plain_run_excludes_failed_workers_and_notes_it() -> None:
    await stored.session("sim-1", stored.jobs(5))
    assert "total 900 FPS without 1 failed worker" in report()[0]


async def test_a_sweep_is_ordered_by_its_own_column_unless_no_job_has_it() -> None:
    await stored.session("sim-1", stored.jobs(3), spec={"sweep": SweepSpec(best="-lr")})
    assert "3 jobs, by lr, the smallest first" in report()[0]
    await stored.session("sim-2", stored.jobs(3), started=START + 5, spec={"sweep": SweepSpec(best="nope")})
    assert "3 jobs, unsorted (no column nope;" in report()[0]


async def test_json_and_csv_equal_the_result_files() -> None:
    folder = await stored.session("sim-1", stored.jobs(12), spec={"sweep": SweepSpec()})
    data = json.loads(report("--json")[0])
    assert [job["number"] for job in data["jobs"]] == list(range(1, 13))
    assert report("--csv")[0] == (folder / TABLE_FILE).read_text()


@pytest.mark.parametrize("queued", [False, True])
async def test_a_lost_session_is_reported_from_its_store_with_running_jobs_as_in_ls(queued: bool) -> None:
    spec = {"sweep": SweepSpec()} if queued else {}
    job = JobRecord(3, "job-3", state=WorkerState.RUNNING, slot="cpu0", started=START, elapsed_s=0.1)
    folder = await stored.session("sim-1", [job], spec=spec, ended=False)
    record = sessions.read_record(folder)
    assert record is not None
    sessions.write_record(structs.replace(record[0], ended=START + 50, lost=True))
    out, _, status = report("sim-1")
    assert status == 0
    assert "sim-1  lost" in out
    assert "sim-1 was lost" in out
    assert "50.0 s" in out
    state, line = ("waiting", "1 job interrupted") if queued else ("failed", f"job-3 failed: {sessions.ENGINE_DIED}")
    assert line in out
    assert f",{state},cpu0" in report("--csv")[0]
    assert json.loads(report("--json")[0])["jobs"][0]["state"] == state


async def test_a_job_that_was_being_stopped_in_a_lost_session_is_reported_as_stopped() -> None:
    job = JobRecord(1, "job-1", state=WorkerState.STOPPING, halted=True, started=START)
    folder = await stored.session("sim-1", [job], spec={"sweep": SweepSpec()}, ended=False)
    record = sessions.read_record(folder)
    assert record is not None
    sessions.write_record(structs.replace(record[0], ended=START + 50, lost=True))
    assert json.loads(report("--json")[0])["jobs"][0]["state"] == "stopped"


async def test_a_lost_tuning_has_no_running_trial_and_its_time_is_that_of_its_engine() -> None:
    assert any(trial.state is TrialState.RUNNING for trial in tunings.LADDER.trials)
    snapshot = structs.replace(stored.snapshot(gpu0=1.0), time=START + 10, elapsed_s=10.0, tuning=tunings.LADDER)
    spec = {"sweep": SweepSpec(), "tune": tunings.SPEC}
    folder = await stored.session("tune-1", stored.jobs(1), spec=spec, snapshot=snapshot, ended=False)
    record = sessions.read_record(folder)
    assert record is not None
    sessions.write_record(structs.replace(record[0], ended=START + 200, lost=True))
    out = report("tune-1")[0]
    assert "running" not in out
    assert "skipped" in out
    assert "time 00:03:20" in report("tune-1", "--best", "job")[0]
    assert tunings.LADDER.eta_s is not None
    assert tunings.LADDER.after_loss("died").eta_s is None


async def test_a_tuning_shows_trials_and_answer_unless_sorted() -> None:
    snapshot = structs.replace(stored.snapshot(gpu0=1.0), tuning=tunings.ENDED)
    folder = await stored.session("tune-1", stored.jobs(3), snapshot=snapshot)
    out, err, status = report("tune-1")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[1].split()[:4] == ["#", "n_envs", "slot", "for"]
    assert [line for line in lines if line.startswith("run it: ")]
    assert lines[-1] == f"tuning: {folder}/tune.json"
    assert "job-1" in report("tune-1", "--best", "fps")[0]


@pytest.mark.parametrize(
    ("words", "error", "status"),
    [
        (["nobody"], "there is no session nobody; gmg-tui ls lists them", 1),
        (["--json", "--csv"], "mutually exclusive", 2),
        (["--html", "/nowhere/at/all.html"], "--html /nowhere/at/all.html: No such file", 1),
        (["--best", "nope"], "no column nope; the columns are: job, name, lr", 2),
        (["sim-1", "sim-1"], "sim-1 is named twice", 2),
        (["sim-1", "other", "--best", "job"], "--best is for one session; give one name", 2),
    ],
)
async def test_invalid_requests_are_reported_in_one_line(words: list[str], error: str, status: int) -> None:
    await stored.session("sim-1", stored.jobs(2))
    out, err, code = report(*words)
    assert (out, code, err.count("\n")) == ("", status, 1)
    assert error in err


async def test_a_session_without_a_store_is_reported_in_one_line() -> None:
    folder = await stored.session("sim-1", stored.jobs(2))
    (folder / STORE).unlink()
    out, err, status = report()
    assert (out, status, err.count("\n")) == ("", 1, 1)
    assert "there is no store" in err


@pytest.mark.process
@pytest.mark.parametrize("export", [("--json",), ("--csv",), ("--csv=metrics",), ()])
def test_a_paused_pager_keeps_no_record_from_the_store(export: tuple[str, ...]) -> None:
    """Else the engine would give up the results of the jobs that end meanwhile."""
    jobs = [records.finished(number, result={"text": "x" * 500}) for number in range(1, 400)]
    curve = Curve(tuple(START + n for n in range(400)), (None,) * 400, (1.0,) * 400)
    rows = [AttemptCurves(number, 1, 0, "cpu0", {"reward": curve}) for number in range(1, 20)]
    folder = asyncio.run(stored.session("paged", jobs, rows=rows))
    with subprocess.Popen(
        [*COMMAND, "report", "paged", *export], env=environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        with contextlib.closing(database.open_for_writing(folder / STORE)) as db:
            database.write(db, [records.finished(400)])
        assert process.poll() is None
        process.stdout.close()
        process.kill()
