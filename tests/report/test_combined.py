"""What is run several times has means and spreads, and what GPUs have to do with a ranking is said."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import Attempt, AttemptMetrics, Fps, Gpu, JobRecord, Session, Slot, SlotKind, WorkerState
from gmg_tui.report import gpus, table
from gmg_tui.report.data import ReportData, choose_order
from gmg_tui.report.page import page
from gmg_tui.results import COMBINED, Results
from gmg_tui.results.combinations import combinations
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import JobAttempt
from tests.store import records

from . import stored


def _job(number: int, n_envs: int, rate: float, slot: str, *, repeated: bool = True, **more: object) -> JobRecord:
    base = f"n_envs={n_envs}"
    fields: dict[str, object] = {
        "name": f"{base}-{slot}" if repeated else base,
        "combination": base if repeated else "",
        "values": {"n_envs": n_envs},
        "slot": slot,
        "fps": Fps(rate, rate, rate, 9, rate),
        "elapsed_s": 10.0 + number,
        "result": {"loss": 1.0 / n_envs},
        "memory_peak_mib": None,
    }
    return records.finished(number, **{**fields, **more})


def _attempt(job: JobRecord) -> JobAttempt:
    args = ("-B", str(job.values["n_envs"]))
    settled = job.fps.settled if job.fps is not None else None
    metrics = AttemptMetrics(1, args, settled=settled, given=args, running_s=60.0)
    attempt = Attempt(1, args, started=5.0, ended=65.0, state=job.state, metrics=metrics)
    return JobAttempt(job.number, job.slot or "", 0, None, attempt)


def _session(models: dict[str, str]) -> Session:
    slots = tuple(
        Slot(name, SlotKind.GPU, Gpu(index, f"GPU-{index}", model))
        for index, (name, model) in enumerate(models.items())
    )
    return structs.replace(records.session(Path("/nowhere")), slots=slots)


def _data(jobs: list[JobRecord], models: dict[str, str] | None = None) -> ReportData:
    session = _session(models or {f"gpu{index}": "H100" for index in range(4)})
    return ReportData("sweep-1", session, False, 9999.0, jobs, {job.number: [_attempt(job)] for job in jobs}, [])


def _twice() -> list[JobRecord]:
    rates = {16: (100.0, 104.0, 99.0), 64: (200.0, 210.0, 190.0)}
    return [
        _job(3 * at + run, n_envs, rate, f"gpu{run - 1}")
        for at, (n_envs, each) in enumerate(rates.items())
        for run, rate in enumerate(each, 1)
    ]


def test_a_combination_has_mean_and_spread_over_the_runs_that_finished() -> None:
    jobs = _twice()
    jobs[2] = structs.replace(jobs[2], state=WorkerState.FAILED)
    first, second = combinations(jobs)
    assert (first.name, len(first.runs), first.finished, first.slots) == ("n_envs=16", 3, 2, ("gpu0", "gpu1", "gpu2"))
    assert first.measures["fps_settled"].mean == pytest.approx(102.0)
    assert first.measures["fps_settled"].spread == pytest.approx(8**0.5)
    assert second.measures["fps_settled"].spread == pytest.approx(10.0)
    assert second.measures["loss"] == (pytest.approx(1 / 64), 0.0)
    assert combinations([_job(1, 16, 100.0, "gpu0", repeated=False)]) == []


def test_what_ran_once_has_a_mean_and_no_spread() -> None:
    (only,) = combinations(_twice()[:1])
    assert only.measures["fps_settled"] == (100.0, None)


def test_the_table_has_a_row_for_each_combination_in_the_order_of_their_means() -> None:
    lines = table.render(_data(_twice()), "fps", width=100, colour=False).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("mean and spread"))
    rows = [" ".join(line.split()) for line in lines[at + 1 : at + 4]]
    assert rows[0].startswith("combination runs FPS ± time ±")
    assert rows[1].startswith("n_envs=64 3 200 5.0 % 15.0 s")
    assert rows[2].startswith("n_envs=16 3 101 2.6 % 12.0 s")
    assert len(table.render(_data(_twice()), "fps", width=40, colour=False).splitlines()[at + 1]) <= 40


def test_without_repeats_there_is_no_such_table() -> None:
    jobs = [_job(1, 16, 100.0, "gpu0", repeated=False), _job(2, 64, 200.0, "gpu1", repeated=False)]
    assert "mean and spread" not in table.render(_data(jobs), "fps", width=100, colour=False)


def test_the_file_of_combinations_is_written_where_there_are_any(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.take(_twice(), [])
    results.write()
    header, first, second = csv.reader(io.StringIO((tmp_path / COMBINED).read_text()))
    row = dict(zip(header, second, strict=True))
    assert header[:5] == ["combination", "runs", "finished", "slots", "n_envs"]
    assert first[0] == "n_envs=16"
    assert (row["slots"], row["fps_settled_mean"], row["fps_settled_spread"]) == ("gpu0 gpu1 gpu2", "200.0", "10.0")
    other = tmp_path / "other"
    other.mkdir()
    single = Results(other)
    single.take([_job(1, 16, 100.0, "gpu0", repeated=False)], [])
    single.write()
    assert not (other / COMBINED).exists()


def _warned(jobs: list[JobRecord], best: str = "fps", models: dict[str, str] | None = None) -> str | None:
    data = _data(jobs, models)
    return gpus.warning(data, choose_order(data.jobs, best))


def test_a_ranking_within_what_the_gpus_differ_by_is_warned_of() -> None:
    # gpu1 is 8 % slower on what both ran; 2 % then decide nothing.
    common = [_job(1, 16, 100.0, "gpu0"), _job(2, 16, 92.0, "gpu1")]
    close = [_job(3, 64, 204.0, "gpu0", repeated=False), _job(4, 128, 200.0, "gpu1", repeated=False)]
    said = _warned([*common, *close])
    assert said is not None
    assert said.startswith("n_envs=64 and n_envs=128 differ by 2.0 % and ran on different GPUs, which differ by 8.3 %")
    far = [_job(3, 64, 300.0, "gpu0", repeated=False), _job(4, 128, 200.0, "gpu1", repeated=False)]
    assert _warned([*common, *far]) is None
    assert _warned([*common, *close], best="-loss") is None


def test_where_the_gpus_difference_is_not_known_a_small_lead_is_warned_of() -> None:
    close = [_job(1, 64, 204.0, "gpu0", repeated=False), _job(2, 128, 200.0, "gpu1", repeated=False)]
    said = _warned(close)
    assert said == (
        "n_envs=64 and n_envs=128 differ by 2.0 % and ran on different GPUs; how much these differ is not known: "
        "every_gpu runs each on all"
    )
    far = [_job(1, 64, 300.0, "gpu0", repeated=False), _job(2, 128, 200.0, "gpu1", repeated=False)]
    assert _warned(far) is None
    assert _warned(far, models={"gpu0": "H100", "gpu1": "L4"}) is not None
    # Each of two pairs has run something in common, but not across.
    pairs = [
        _job(number, n_envs, 100.0, slot)
        for number, (n_envs, slot) in enumerate(((1, "gpu0"), (1, "gpu1"), (2, "gpu2"), (2, "gpu3")), 1)
    ]
    apart = [_job(5, 64, 204.0, "gpu0", repeated=False), _job(6, 128, 203.0, "gpu2", repeated=False)]
    said = _warned([*pairs, *apart])
    assert said is not None
    assert "is not known" in said


def test_what_ran_on_the_same_gpus_or_on_the_cpu_is_not_warned_of() -> None:
    assert _warned(_twice()) is None
    close = [_job(1, 64, 204.0, "cpu0", repeated=False), _job(2, 128, 200.0, "cpu1", repeated=False)]
    assert _warned(close) is None


def test_a_gpu_that_is_slower_than_the_others_is_named_with_how_much() -> None:
    rates = {"gpu0": 100.0, "gpu1": 101.0, "gpu2": 92.0, "gpu3": 100.0}
    jobs = [_job(number, 16, rate, slot) for number, (slot, rate) in enumerate(rates.items(), 1)]
    jobs += [_job(number + 4, 64, 2 * rate, slot) for number, (slot, rate) in enumerate(rates.items(), 1)]
    assert gpus.slow(_data(jobs)) == ["gpu2: −8 % of the median"]
    assert "gpu2: −8 % of the median" in table.render(_data(jobs), None, width=100, colour=False)
    assert gpus.slow(_data(jobs, {"gpu0": "H100", "gpu1": "L4", "gpu2": "H100", "gpu3": "L4"})) == []


async def test_the_page_has_the_combinations() -> None:
    folder = await stored.session("sweep-1", _twice(), attempts=map(_attempt, _twice()), best="fps")
    with open_store(folder / "store.sqlite") as found:
        text = page(_data(_twice()), found, "ended")[0].decode()
    assert "<h2>Combinations</h2>" in text
    assert '<td class="text">n_envs=64</td>' in text
    assert "fps_settled_spread" in text
