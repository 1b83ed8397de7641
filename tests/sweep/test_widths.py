"""Jobs that need several slots at once: `ddp` and `gpus_per_job`, from the file or the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.commands.options import RunOptions, groups_of
from gmg_tui.errors import GmgError
from gmg_tui.model import DdpSpec, Job
from gmg_tui.sweep import dry_run
from tests.sweep.making import made

_GRID = "[grid]\nranks = [1, 2, 4]\n"


def _widths(*jobs: Job) -> list[tuple[int, int | None]]:
    return [(job.gpus, job.world_size) for job in jobs]


def test_without_either_a_job_takes_one_slot(tmp_path: Path) -> None:
    assert _widths(*made(tmp_path, "").jobs) == [(1, None)]


def test_a_job_is_a_group_of_ranks_or_one_process_on_several_gpus(tmp_path: Path) -> None:
    assert _widths(*made(tmp_path, "ddp = 2").jobs) == [(2, 2)]
    assert _widths(*made(tmp_path, "ddp = 1").jobs) == [(1, 1)]
    assert _widths(*made(tmp_path, "gpus_per_job = 2").jobs) == [(2, None)]


def test_the_number_may_be_a_value_of_the_job(tmp_path: Path) -> None:
    made_of = made(tmp_path, 'ddp = "{ranks}"\n' + _GRID)
    assert _widths(*made_of.jobs) == [(1, 1), (2, 2), (4, 4)]
    assert made_of.warnings == (), "the value is used, though no argument has it"
    assert _widths(*made(tmp_path, _GRID, ddp="{ranks}").jobs) == [(1, 1), (2, 2), (4, 4)]
    experiment = 'ddp = "{ranks}"\n[[experiment]]\nranks = 3\n'
    assert _widths(*made(tmp_path, experiment).jobs) == [(3, 3)]


def test_the_command_line_overrides_the_file_and_a_preset_the_file(tmp_path: Path) -> None:
    text = "ddp = 2\n[preset.four]\nddp = 4\n[preset.two]\nretries = 1\n"
    assert _widths(*made(tmp_path, text, all_presets=True).jobs) == [(4, 4), (2, 2)]
    assert _widths(*made(tmp_path, text, presets=("four",), ddp="8").jobs) == [(8, 8)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ddp = 0", r"sweep\.toml: ddp is 0; give a whole number from 1 to 1024"),
        ("ddp = true", r"ddp is true; give a whole number"),
        ("ddp = 1.5", r"ddp is 1\.5; give a whole number"),
        ('ddp = "two"', r"ddp is 'two'; give a whole number"),
        ('ddp = "{ranks}"', r"ddp: \{ranks\} has no value"),
        ('ddp = "{job}"', r"ddp: \{job\} is not known before the job starts"),
        ('ddp = "{ranks}"\n[grid]\nranks = [1, "x"]', r"ddp: \{ranks\} is 'x'; give a whole number"),
        ("ddp = 2\ngpus_per_job = 2", r"ddp has a process on each GPU, .*gpus_per_job one for all of them"),
        ("ddp = 2\nper_gpu = 2", r"do not share them; leave out .*per_gpu"),
        ("gpus_per_job = 2\nevery_gpu = true", r"has no single one; leave out .*every_gpu"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(GmgError, match=said):
        made(tmp_path, text)


def test_what_is_listed_says_how_many(tmp_path: Path) -> None:
    sweep = made(tmp_path, 'ddp = "{ranks}"\n' + _GRID)
    listed = dry_run.rows(sweep.batches, sweep.jobs, total=3, cpu=None)
    assert [row[2] for row in listed] == ["1 rank on all", "2 ranks on all", "4 ranks on all"]
    wide = made(tmp_path, "gpus_per_job = 2")
    assert [row[2] for row in dry_run.rows(wide.batches, wide.jobs, total=1, cpu=4)] == ["2 of 4 CPU slots"]


def test_what_is_for_ranks_needs_some(tmp_path: Path) -> None:
    ranks, plain = made(tmp_path, "ddp = 2").jobs, made(tmp_path, "").jobs
    assert groups_of(RunOptions(flight_recorder=True), ranks) == DdpSpec(flight_recorder=True)
    assert groups_of(RunOptions(), plain) is None
    with pytest.raises(GmgError, match="--flight-recorder is for the ranks of a group"):
        groups_of(RunOptions(flight_recorder=True), plain)
    with pytest.raises(GmgError, match="--start gated: the ranks of a group wait for each other"):
        groups_of(RunOptions(start="gated"), ranks)
