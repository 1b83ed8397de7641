"""The table fits its terminal, shows the jobs that matter, and says what it leaves out."""

from __future__ import annotations

import re
import time

import pytest
from rich.cells import cell_len

from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.report import final, table
from gmg_tui.report.data import ReportData
from tests.store.records import START, attempt_of, finished

from . import stored


def _render(listed: list[JobRecord], best: str | None = None, *, width: int = 80, running: bool = False) -> list[str]:
    attempts = {job.number: [attempt_of(job)] for job in listed if job.started}
    data = ReportData("sim-1", None, running, START + 9999, listed, attempts, [])
    return table.render(data, best, width=width, colour=False).splitlines()


def test_a_wide_terminal_has_every_column_and_a_line_for_each_job() -> None:
    energies = {"energy_j": 36_000.0, "memory_peak_mib": 30_211.0, "gpu_util_mean_pct": 97.1, "attempts": 2}
    header, first, second, *rest = _render([finished(1, **energies), finished(2, **energies)], width=160)
    assert re.split(r"  +", header.strip()) == [
        "job", "name", "lr", "method", "state", "slot", "tries", "start", "time", "FPS", "FPS last", "envs", "VRAM peak",
        "GPU %", "energy", "tm_score",
    ]  # fmt: skip
    started = time.strftime("%H:%M:%S", time.localtime(START + 20))
    assert re.split(r"  +", first.strip()) == [
        "2", "job-2", "0.2", "ode", "finished", "cpu0", "2", started, "9.5 s", "210", "200", "4,096", "29.5 GiB", "97",
        "10 Wh", "0.02",
    ]  # fmt: skip
    assert "job-1" in second
    assert rest == [
        "2 jobs, by tm_score, the largest first",
        "2 finished  total time 00:00:19  total job time 00:00:19  1.0× speed-up  20 Wh",
    ]


@pytest.mark.parametrize("width", [40, 80, 100])
def test_a_narrow_terminal_has_fewer_columns_and_says_which(width: int) -> None:
    listed = [
        finished(n, name="a-rather-long-name-for-a-job-is-cut", values={f"v{k}": k for k in range(30)})
        for n in range(1, 4)
    ]
    lines = _render(listed, "fps_mean", width=width)
    assert all(cell_len(line) <= width for line in lines[:4])
    assert {"name", "fps_mean"} <= set(lines[0].split())
    (said,) = (line for line in lines if line.startswith("not enough room for: "))
    assert "v29" in said
    assert "envs" in (said if width == 40 else "".join(lines))


def test_many_jobs_are_shown_by_the_best_and_the_failed() -> None:
    lines = _render(stored.jobs(400))
    rows = [line.split()[1] for line in lines[1:41]]
    assert "the first 30 of 400 jobs, and 10 of 80 that failed, by tm_score, the largest first" in lines
    assert rows[:2] == ["job-399", "job-398"]
    assert rows[30:] == [f"job-{number}" for number in range(5, 55, 5)]
    assert lines.count("and 70 more failed") == 1
    assert "320 finished, 80 failed" in lines[-1]


def test_jobs_at_once_are_a_speed_up() -> None:
    listed = [finished(number, gpu_uuid="GPU-1", started=START, ended=START + 9.5) for number in (1, 2, 3)]
    assert "3.0× speed-up" in _render(listed)[-1]


def test_forty_jobs_are_all_shown() -> None:
    lines = _render(stored.jobs(40))
    assert sorted(int(line.split()[0]) for line in lines[1:41]) == list(range(1, 41))
    assert "40 jobs, by tm_score, the largest first" in lines


def test_a_worker_cannot_steer_the_terminal() -> None:
    evil = stored.HOSTILE
    listed = [finished(1, name=evil, reason=evil, state=WorkerState.FAILED, values={evil: evil}, result={evil: evil})]
    text = "\n".join(_render(listed, width=200))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "<b>x</b>" in text


def test_markup_in_a_name_is_text() -> None:
    assert _render([finished(1, name="[red]a[/red]")])[1].split()[1] == "[red]a[/red]"


def test_an_empty_session() -> None:
    assert _render([]) == ["no jobs", "no jobs"]


async def test_the_final_table_is_ordered_as_the_sweep_asks() -> None:
    folder = await stored.session("sim-1", stored.jobs(4), best="-fps_last")
    lines = final(folder).splitlines()
    assert [line.split()[1] for line in lines[1:5]] == ["job-1", "job-2", "job-3", "job-4"]
    assert lines[5] == "4 jobs, by fps_last, the smallest first"
    assert lines[-1] == f"results: {folder}/"


async def test_a_best_column_that_nobody_reported_is_said() -> None:
    folder = await stored.session("sim-1", stored.jobs(2), best="nope")
    assert "2 jobs, in job order (no column nope; there are: job, name, state, " in final(folder)


async def test_the_best_fps_are_the_settled_ones() -> None:
    folder = await stored.session("sim-1", stored.jobs(2), best="fps")
    assert "2 jobs, by fps_settled, the largest first" in final(folder).splitlines()


def test_a_column_that_no_job_has_a_value_in_orders_nothing_and_is_not_drawn() -> None:
    jobs = [finished(number, fps=None, state=WorkerState.FAILED, reason="died", result={}) for number in (1, 2)]
    lines = _render(jobs, "fps", width=160)
    assert "FPS" not in lines[0]
    assert [line.split()[0] for line in lines[1:3]] == ["1", "2"]
