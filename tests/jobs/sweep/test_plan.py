"""The jobs of a sweep's file and options, and invalid ones."""

import itertools
import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.cli.run_spec import sweep_ddp
from gmg_tui.jobs.sweep import plan
from gmg_tui.jobs.sweep.plan import Plan
from gmg_tui.jobs.sweep.settings import Settings, as_storable, from_options, is_job_name, parse_sets, read
from gmg_tui.model import DdpSpec, RunSpec, SweepSpec
from gmg_tui.model.errors import GmgError
from tests.cli.scripted import options_of_run
from tests.jobs.sweep.making import made, no_check, write

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
    spec = plan.apply(_SPEC, read(write(tmp_path, _FILE)))
    assert (spec.gpus, spec.env) == ("0,1,2", {"A": "1", "NOISE": "{noise_scale}"})
    assert spec.sweep == SweepSpec(per_gpu=1, timeout_s=1800.0)


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"args": ("{method}", "{branch_counts}", "{num_samples}")}
    sweep = made(tmp_path, _FILE, "method=x", "extra=1,2", **options)
    assert _names(sweep) == [f"branch_counts={n},extra={e}" for n in (2, 4, 8) for e in (1, 2)] + ["wide"]
    assert {job.values["method"] for job in sweep.jobs} == {"x"}
    upper = from_options({"per_gpu": 2, "timeout": "none", "env": {"NOISE": "0"}})
    spec = plan.apply(_SPEC, read(write(tmp_path, _FILE)).overridden_by(upper))
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
        assert is_job_name(job.name)


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
    assert not sweep.warning, "the number of ranks is used, though no argument has it"


def test_only_ranks_have_a_local_rank(tmp_path: Path) -> None:
    ranks, plain = made(tmp_path, "ddp = 2").jobs, made(tmp_path, "").jobs
    assert sweep_ddp(options_of_run(virtual_local_rank=True), ranks) == DdpSpec(virtual_local_rank=True)
    assert sweep_ddp(options_of_run(virtual_local_rank=True), plain) is None


# Invalid files and options: every error is one line with the file, the key and the cause


def _error(folder: Path, text: str, *words: str, **options: object) -> str:
    with pytest.raises(GmgError) as caught:
        made(folder, text, *words, **options)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("per_gpu = \n", "sweep.toml is not TOML: Invalid value (at line 2, column 11)"),
        ("per_gpus = 2\n", "sweep.toml: unknown key per_gpus; did you mean per_gpu?"),
        ("lr = 2\n", "sweep.toml: unknown key lr; a placeholder's value belongs under [defaults] or [grid]"),
        ("args = ['a', ['b']]\n", "sweep.toml: args[1]: expected bool | int | float | str, got array"),
        ("env = { 'A-B' = 1 }\n", "sweep.toml: env: A-B is not a variable name"),
        ('[grid]\na = ["x\\u0000y"]\n', r"sweep.toml: 'x\x00y' contains a NUL character"),
        ("per_gpu = 0\n", "sweep.toml: per_gpu: expected int >= 1"),
        ("timeout = '30 min'\n", "sweep.toml: timeout 30 min: give a time with a unit, as in"),
        ("[grid]\na = [1]\nb = []\n", "sweep.toml: grid.b: expected array of length >= 1"),
        ("[grid]\ngpu = [1]\n", "sweep.toml: {gpu} is filled in by gmg-tui itself; choose another name"),
        ("[defaults]\n'a b' = 1\n", "sweep.toml: a b cannot be a placeholder"),
        ("[[experiment]]\nname = 'a/b'\n", "sweep.toml: experiment 1: the name a/b must be"),
        ("ddp = 'two'\n", "sweep.toml: ddp two: give a number, or a placeholder for one"),
        ("args = ['{lrr}']\n[grid]\nlr = [1]\n", "sweep.toml: args[1]: {lrr} has no value in the grid; did you mean lr?"),
        ("ddp = '{ranks}'\n", "sweep.toml: ddp: {ranks} has no value in the grid"),
        ("ddp = '{r}'\n[grid]\nr = [1, 'x']\n", "sweep.toml: ddp: {r} is x; give it whole numbers from 1 to 1024"),
        ("ddp = 2\nper_gpu = 2\n", "sweep.toml: jobs on several GPUs cannot share them; remove per_gpu"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, error: str) -> None:
    assert _error(tmp_path, text).startswith(error)


def test_an_error_names_the_option_as_given(tmp_path: Path) -> None:
    assert _error(tmp_path, "", per_gpu=0).startswith("--per-gpu: expected int >= 1")


def test_unused_values_cause_a_warning(tmp_path: Path) -> None:
    warning = made(tmp_path, "args = ['{a}']\n[grid]\na = [1]\nb = [2]\n[defaults]\nc = 3\n").warning
    assert warning.endswith("sweep.toml: no placeholder uses b, c; write {b} where jobs should get it")


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("absent.toml", None, "there is no experiments file .*absent.toml; give a TOML file, or --set"),
        ("sim.py", b"print()", "sim.py is not an experiments file; without one: --set KEY=V1,V2 --script .*sim.py"),
        ("deep.toml", b"a = " + b"[" * 5000, "deep.toml is not TOML"),
        ("x" * 300, None, "cannot read|no experiments file"),
        ("", None, "is not a regular file"),
    ],
)
def test_an_invalid_experiments_file_is_named(tmp_path: Path, name: str, content: bytes | None, error: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(GmgError, match=error):
        read(str(tmp_path / name))


def test_a_script_is_searched_beside_the_file_and_then_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder may be one of all users, such as `/tmp`."""
    (tmp_path / "here").mkdir()
    (tmp_path / "file").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write(tmp_path / "file", "")
    (tmp_path / "here" / "sim.py").touch()
    assert read("../file/sweep.toml").script == "sim.py"
    (tmp_path / "file" / "sim.py").touch()
    assert read("../file/sweep.toml").script == "../file/sim.py"


def test_of_a_huge_file_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(GmgError, match="it is larger than 16 MiB"):
        read(str(tmp_path / "huge.toml"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_no_other_user_can_put_a_script_beside_a_file_in_a_folder_of_all_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    (shared := tmp_path / "scratch").mkdir()
    theirs = shared / "sim.py"
    theirs.touch()
    monkeypatch.chdir(tmp_path / "job")
    write(shared, "")
    for mode, owner, is_refused in ((0o1777, 0, False), (0o1777, 1, True), (0o2775, 1, False)):  # that of a group
        shared.chmod(mode)
        os.chown(theirs, owner, -1)
        if is_refused:
            with pytest.raises(
                GmgError, match=r"sim\.py belongs to daemon, who may have put it where sweep\.toml names it"
            ):
                read("../scratch/sweep.toml")
        else:
            assert read("../scratch/sweep.toml").script == "../scratch/sim.py"
    shared.chmod(0o1777)
    (shared / "mine").mkdir()
    for folder, script in ((shared / "mine", "../sim.py"), (shared, "mine/../sim.py")):
        (folder / "sweep.toml").write_text(f"script = {script!r}\n")
        with pytest.raises(
            GmgError, match=r"sim\.py belongs to daemon, who may have put it where sweep\.toml names it"
        ):
            read(str(folder / "sweep.toml"))
    write(tmp_path / "job", "")
    (tmp_path / "job" / "sim.py").unlink(missing_ok=True)
    monkeypatch.chdir(shared)
    for mode in (0o1777, 0o755):
        shared.chmod(mode)
        with pytest.raises(GmgError, match=r"sim\.py belongs to daemon"):
            read("../job/sweep.toml")  # is not beside the file
    shared.chmod(0o1777)
    monkeypatch.chdir(tmp_path / "job")
    (tmp_path / "job" / "sweep.toml").write_text(f"script = '{theirs}'")
    assert read("sweep.toml").script == str(theirs), "named by its full path, as on the command line"
    write(shared, "")
    os.chown(shared / "sweep.toml", 1, -1)
    assert read("../scratch/sweep.toml").script == "../scratch/sim.py", "it comes with its file"
    (shared / "team" / "me").mkdir(parents=True)
    os.chown(shared / "team", 1, -1)
    write(shared / "team" / "me", "")
    (shared / "team" / "me" / "sim.py").touch()
    assert read("../scratch/team/me/sweep.toml").script == "../scratch/team/me/sim.py", "in a folder of one's own"


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("30m", 1800.0), ("1h30m", 5400.0), ("90s", 90.0), ("1d2h3m4s", 93784.0), (" 2M ", 120.0), ("0.5s", 0.5)],
)
def test_durations_are_parsed(timeout: str | float, seconds: float) -> None:
    assert Settings(timeout=timeout).timeout_s == seconds


@pytest.mark.parametrize(
    "timeout", ["90", 90, 0.5, "", "m", "30 m", "1h30", "30m1h", "-5", "0", -1, math.nan, math.inf, "1m1m", "inf"]
)
def test_invalid_durations_are_refused(timeout: str | float) -> None:
    with pytest.raises(ValueError, match="give a time"):
        Settings(timeout=timeout)


@pytest.mark.parametrize(
    ("gpus", "option"), [((0, 1, 2), "0,1,2"), ((3,), "3,"), (("GPU-ab", 1), "GPU-ab,1"), ("all", "all"), (4, "4")]
)
def test_gpus_have_the_syntax_of_the_option(gpus: int | str | tuple[int | str, ...], option: str) -> None:
    assert Settings(gpus=gpus).gpus_text == option


@given(st.one_of(st.booleans(), st.integers(), st.floats(), st.text()))
def test_every_value_survives_the_store(value: bool | int | float | str) -> None:
    kept = as_storable(value)
    again = msgspec.json.decode(msgspec.json.encode(kept), type=bool | int | float | str)
    assert (again, type(again)) == (kept, type(kept))


def test_command_line_values_are_parsed_as_toml_numbers_and_booleans() -> None:
    words = (
        "a=1,2.5,-3,1e-3,1_000",
        "b=true,false,True",
        "c=adam, sgd ,1979-05-27,[1],0x10",
        "optim.lr='1',\"x,y\",''",
        "d=k=v,'[64,64]'",
    )
    assert parse_sets(words) == {
        "a": (1, 2.5, -3, 0.001, 1000),
        "b": (True, False, "True"),
        "c": ("adam", "sgd", "1979-05-27", "[1]", 16),
        "optim.lr": ("1", "x,y", ""),
        "d": ("k=v", "[64,64]"),
    }


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("a",), "give KEY=VALUE"),
        (("a=",), "a value is missing"),
        (("a=1,,2",), "a value is missing"),
        (("a='1,2",), "a quote is not closed"),
        (("a=[1,2]",), "remove the brackets"),
        (("a=1", "a=2"), "a is given twice"),
    ],
)
def test_invalid_set_options_are_named(words: tuple[str, ...], error: str) -> None:
    with pytest.raises(GmgError, match=f"^--set {re.escape(words[-1])}: .*{error}"):
        parse_sets(words)
