"""Jobs that are run several times: `repeat` and `every_gpu`, from the file or the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.errors import GmgError
from gmg_tui.sweep import dry_run, names
from gmg_tui.sweep.plan import MAX_JOBS
from tests.sweep.making import made

_GRID = 'args = ["-B", "{n_envs}"]\n{}\n[grid]\nn_envs = [16, 64]\n'


def _file(keys: str) -> str:
    return _GRID.replace("{}", keys)


def test_without_either_a_job_is_run_once_anywhere(tmp_path: Path) -> None:
    for job in made(tmp_path, _file("")).jobs:
        assert (job.only, job.combination) == (None, "")


def test_repeated_jobs_run_all_once_before_any_runs_again(tmp_path: Path) -> None:
    jobs = made(tmp_path, _file("repeat = 3")).jobs
    assert [job.name for job in jobs] == [f"n_envs={value}-r{run}" for run in (1, 2, 3) for value in (16, 64)]
    assert [job.number for job in jobs] == [1, 2, 3, 4, 5, 6]
    assert [job.combination for job in jobs] == ["n_envs=16", "n_envs=64"] * 3
    assert [job.values for job in jobs] == [{"n_envs": 16}, {"n_envs": 64}] * 3
    assert {job.only for job in jobs} == {None}


def test_every_gpu_of_its_group_runs_each_job(tmp_path: Path) -> None:
    jobs = made(tmp_path, _file("every_gpu = true\ngpus = [0, 2]")).jobs
    assert [(job.name, job.only) for job in jobs] == [
        ("n_envs=16-gpu0", "gpu0"),
        ("n_envs=16-gpu2", "gpu2"),
        ("n_envs=64-gpu0", "gpu0"),
        ("n_envs=64-gpu2", "gpu2"),
    ]
    assert {job.combination for job in jobs} == {"n_envs=16", "n_envs=64"}


def test_both_together_and_from_the_command_line(tmp_path: Path) -> None:
    jobs = made(tmp_path, _file(""), cpu=True, repeat=2, every_gpu=True).jobs
    assert [job.name for job in jobs[:4]] == [f"n_envs={value}-cpu{slot}-r1" for value in (16, 64) for slot in (0, 1)]
    assert [job.name for job in jobs[4:]] == [job.name.replace("-r1", "-r2") for job in jobs[:4]]


def test_jobs_that_share_a_gpu_are_spread_over_its_slots(tmp_path: Path) -> None:
    jobs = made(tmp_path, _file("every_gpu = true\nper_gpu = 2\ngpus = [3]")).jobs
    assert sorted(job.only or "" for job in jobs) == ["gpu3-1", "gpu3-2"]


def test_a_preset_may_run_its_jobs_more_often(tmp_path: Path) -> None:
    text = _file("") + "[preset.sure]\nrepeat = 2\n[preset.quick]\nretries = 1\n"
    jobs = made(tmp_path, text, all_presets=True).jobs
    names_of = [f"sure-n_envs={value}-r{run}" for run in (1, 2) for value in (16, 64)]
    assert [job.name for job in jobs] == [*names_of, "quick-n_envs=16", "quick-n_envs=64"]
    assert [job.combination for job in jobs[3:5]] == ["sure-n_envs=64", ""]


def test_names_stay_unique_and_short_and_end_with_what_tells_the_runs_apart(tmp_path: Path) -> None:
    long = "x" * 79
    text = f'repeat = 2\n[[experiment]]\nname = "{long}"\n[[experiment]]\nname = "a"\n[[experiment]]\nname = "a-r1"\n'
    jobs = made(tmp_path, text).jobs
    found = [job.name for job in jobs]
    assert len(set(found)) == 6
    assert all(names.given(name) == name for name in found)
    assert [name for name in found if name.startswith("x")] == [f"{long[:77]}-r1", f"{long[:77]}-r2"]
    assert [job.combination for job in jobs] == [long, "a", "a-r1"] * 2


def test_a_dry_run_shows_each_run_and_its_slot(tmp_path: Path) -> None:
    sweep = made(tmp_path, _file("every_gpu = true\ngpus = [1, 2]").replace('"{n_envs}"', '"{n_envs}", "{slot}"'))
    rows = list(dry_run.rows(sweep.batches, sweep.jobs, total=4, cpu=None))
    assert rows[1] == ("2", "n_envs=16-gpu2", "gpu2", "python sim.py -B 16 gpu2")
    assert [row[2] for row in rows] == ["gpu1", "gpu2", "gpu1", "gpu2"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("repeat = 0", "repeat is 0; give a whole number from 1 to 1000"),
        ("repeat = true", "repeat is true; give a whole number"),
        ("every_gpu = 1", "every_gpu is 1; give true or false"),
        ('repeat = 2\nout_dir = "out/{n_envs}"', "is the same folder for n_envs=16-r1 and n_envs=16-r2; put {name}"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, keys: str, said: str) -> None:
    with pytest.raises(GmgError) as caught:
        made(tmp_path, _file(keys))
    assert said in str(caught.value)


def test_runs_count_for_the_most_jobs_of_a_sweep(tmp_path: Path) -> None:
    values = ", ".join(str(value) for value in range(200))
    text = _file("repeat = 1000").replace("[16, 64]", f"[{values}]")
    with pytest.raises(GmgError, match=f"makes 200,000 jobs; a sweep can have at most {MAX_JOBS:,}.*values or runs"):
        made(tmp_path, text)
