"""The jobs that a file and the command line make: their order, names and values."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.commands.spec import groups_of
from gmg_tui.model import DdpSpec, RunSpec, SweepSpec
from gmg_tui.sweep import plan
from gmg_tui.sweep.plan import Plan
from gmg_tui.sweep.settings import Settings, fits, from_options, read
from tests.cli.scripted import options_of_run
from tests.sweep.making import made, no_check, write

_SPEC = RunSpec("s", "/s", "/s.sock", "sim.py", (), "/", "python", env={"A": "1"})

_FILE = """
args = ["--num_samples", "{num_samples}", "--method", "{method}", "--branches", "{branch_counts}", "--out", "{name}"]
gpus = [0, 1, 2]
per_gpu = 1
timeout = "30m"
env = { NOISE = "{noise_scale}" }
[grid]
branch_counts = [2, 4, 8]
method = ["sde_path_exploration", "divergence_free_ode"]
[defaults]
num_samples = 4
noise_scale = 0.3
[[experiment]]
name = "wide"
branch_counts = 16
method = "x"
"""


def _names(sweep: Plan) -> list[str]:
    return [job.name for job in sweep.jobs]


def test_the_grid_is_in_file_order_followed_by_the_experiments(tmp_path: Path) -> None:
    sweep = made(tmp_path, _FILE)
    methods = ("sde_path_exploration", "divergence_free_ode")
    grid = [f"branch_counts={count},method={method}" for count, method in itertools.product((2, 4, 8), methods)]
    assert _names(sweep) == [*grid, "wide"]
    assert [job.number for job in sweep.jobs] == list(range(1, 8))
    assert list(sweep.jobs[1].values.items()) == [
        ("branch_counts", 2),
        ("method", "divergence_free_ode"),
        ("num_samples", 4),
        ("noise_scale", 0.3),
    ]
    spec = plan.applied(_SPEC, read(write(tmp_path, _FILE)))
    assert (spec.gpus, spec.env) == ("0,1,2", {"A": "1", "NOISE": "{noise_scale}"})
    assert spec.sweep == SweepSpec(per_gpu=1, timeout_s=1800.0)


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"args": ("{method}", "{branch_counts}", "{num_samples}")}
    sweep = made(tmp_path, _FILE, "method=x", "extra=1,2", **options)
    assert _names(sweep) == [f"branch_counts={n},extra={e}" for n in (2, 4, 8) for e in (1, 2)] + ["wide"]
    assert {job.values["method"] for job in sweep.jobs} == {"x"}
    upper = from_options({"per_gpu": 2, "timeout": "none", "env": {"NOISE": "0"}})
    spec = plan.applied(_SPEC, read(write(tmp_path, _FILE)).under(upper))
    assert (spec.gpus, spec.env, spec.sweep) == ("0,1,2", {"A": "1", "NOISE": "0"}, SweepSpec(per_gpu=2))


def test_a_single_value_on_the_command_line_changes_experiments_and_adds_no_job(tmp_path: Path) -> None:
    text = 'args = ["{a}", "{b}"]\n[[experiment]]\na = 1\nb = 2\n[[experiment]]\nname = "x"\na = 3\nb = 4\n'
    assert [job.values for job in made(tmp_path, text, "b=5").jobs] == [{"a": 1, "b": 5}, {"a": 3, "b": 5}]
    assert _names(made(tmp_path, text, "b=5")) == ["experiment-1", "x"]
    text += "[defaults]\na = 0\n"
    assert _names(made(tmp_path, text, "b=5,6")) == ["b=5", "b=6", "experiment-1", "x"]


@pytest.mark.parametrize(
    ("text", "sets", "names"),
    [
        ("", (), ["sim"]),
        ("[grid]\na = [1]\nb = [2]\n", (), ["a=1,b=2"]),
        ("[grid]\na = [1]\nb = [2, 3]\n", (), ["b=2", "b=3"]),
        ("[grid]\na = [1, 1, 1]\n", (), ["a=1", "a=1-2", "a=1-3"]),
        ('[grid]\na = ["/data/a b.pt", "ä/ö", -1, true]\n', (), ["a=data-a-b.pt", "a=ä-ö", "a=-1", "a=true"]),
        ('[grid]\nk = ["漢字", "漢 字", "a\u0308", "ä"]\n', (), ["k=漢字", "k=漢-字", "k=ä", "k=ä-2"]),
        ('[grid]\na = [1, 2]\n[[experiment]]\nname = "a=1"\n', (), ["a=1", "a=2", "a=1-2"]),
        ("", ("lr=1e-5,0.5",), ["lr=1e-05", "lr=0.5"]),
        ('[[experiment]]\nname = "Übung_漢字"\n[[experiment]]\nname = "A\u0308"\n', (), ["Übung_漢字", "Ä"]),
        (f"[grid]\nk = ['{'漢' * 60}1', '{'漢' * 60}2']\n", (), ["k=" + "漢" * 26, "k=" + "漢" * 25 + "-2"]),
    ],
)
def test_jobs_are_named_after_what_varies(tmp_path: Path, text: str, sets: tuple[str, ...], names: list[str]) -> None:
    assert _names(made(tmp_path, text, *sets)) == names


def test_a_module_is_named_by_its_last_part(tmp_path: Path) -> None:
    assert _names(made(tmp_path, "", script="pkg.train", module=True)) == ["train"]


_TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=100)
_VALUES = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), _TEXTS)
_KEYS = st.from_regex(r"[w-z]{1,3}", fullmatch=True)
_GRIDS = st.dictionaries(_KEYS, st.lists(_VALUES, min_size=1, max_size=4).map(tuple), max_size=4)


@given(_GRIDS, st.dictionaries(_KEYS, _VALUES, max_size=3), st.lists(st.dictionaries(_KEYS, _VALUES), max_size=2))
def test_every_combination_is_one_job_with_a_valid_file_name(
    grid: dict[str, tuple[bool | int | float | str, ...]],
    defaults: dict[str, bool | int | float | str],
    singles: list[dict[str, bool | int | float | str]],
) -> None:
    settings = Settings(script="sim.py", grid=grid, defaults=defaults, experiment=tuple(singles))
    sweep = plan.make(settings, "sweep", {}, no_check)
    combined = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    expected = [*(combined if grid or not singles else []), *singles]
    assert [job.values for job in sweep.jobs] == [{**defaults, **values} for values in expected]
    assert len({job.name for job in sweep.jobs}) == len(sweep.jobs)
    for job in sweep.jobs:
        assert fits(job.name)


@pytest.mark.parametrize(
    ("text", "options", "ranks"),
    [
        ("", {}, [None]),
        ("ddp = 2", {}, [2]),
        ("ddp = 2", {"ddp": "8"}, [8]),
        ("[grid]\nranks = [1, 2, 4]\n", {"ddp": "{ranks}"}, [1, 2, 4]),
        ("ddp = '{ranks}'\n[[experiment]]\nranks = 3\n", {}, [3]),
    ],
)
def test_a_job_is_a_process_or_a_group_of_ranks(
    tmp_path: Path, text: str, options: dict[str, Any], ranks: list[int | None]
) -> None:
    sweep = made(tmp_path, text, **options)
    assert [job.world_size for job in sweep.jobs] == ranks
    assert sweep.warnings == (), "the number of ranks is used, though no argument has it"


def test_only_ranks_have_a_local_rank(tmp_path: Path) -> None:
    ranks, plain = made(tmp_path, "ddp = 2").jobs, made(tmp_path, "").jobs
    assert groups_of(options_of_run(virtual_local_rank=True), ranks) == DdpSpec(virtual_local_rank=True)
    assert groups_of(options_of_run(virtual_local_rank=True), plain) is None
