"""The experiments file and the options beside it: every error is one line with the file, the key, and what is wrong."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.errors import GmgError
from gmg_tui.sweep.settings import Settings, read, sets, stored
from tests.sweep.making import made, write


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
        (
            "lr = 2\n",
            "sweep.toml: unknown key lr; if it is a placeholder, its value belongs under [defaults] or [grid]",
        ),
        ("args = ['a', ['b']]\n", "sweep.toml: args[1]: expected bool | int | float | str, got array"),
        ("env = { 'A-B' = 1 }\n", "sweep.toml: env: A-B is not a variable's name"),
        ('[grid]\na = ["x\\u0000y"]\n', r"sweep.toml: 'x\x00y' has a NUL character"),
        ("per_gpu = 0\n", "sweep.toml: per_gpu: expected int >= 1"),
        ("timeout = '30 min'\n", "sweep.toml: timeout 30 min: give a time, as in"),
        ("[grid]\na = [1]\nb = []\n", "sweep.toml: grid.b: expected array of length >= 1"),
        ("[grid]\ngpu = [1]\n", "sweep.toml: {gpu} is filled in by gmg-tui itself; choose another name"),
        ("[defaults]\n'a b' = 1\n", "sweep.toml: a b cannot be a placeholder"),
        ("[[experiment]]\nname = 'a/b'\n", "sweep.toml: experiment 1: the name a/b has to be"),
        ("ddp = 'two'\n", "sweep.toml: ddp two: give a number, or the placeholder of one"),
        (
            "args = ['{lrr}']\n[grid]\nlr = [1]\n",
            "sweep.toml: args[1]: {lrr} has no value in the grid; did you mean lr?",
        ),
        ("ddp = '{ranks}'\n", "sweep.toml: ddp: {ranks} has no value in the grid"),
        ("ddp = '{r}'\n[grid]\nr = [1, 'x']\n", "sweep.toml: ddp: {r} is x; give it whole numbers from 1 to 1024"),
        ("ddp = 2\nper_gpu = 2\n", "sweep.toml: jobs that need several GPUs do not share them; leave out per_gpu"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, error: str) -> None:
    assert _error(tmp_path, text).startswith(error)


def test_an_error_names_the_option_as_given(tmp_path: Path) -> None:
    assert _error(tmp_path, "", per_gpu=0).startswith("--per-gpu: expected int >= 1")


def test_unused_values_cause_a_warning(tmp_path: Path) -> None:
    (warning,) = made(tmp_path, "args = ['{a}']\n[grid]\na = [1]\nb = [2]\n[defaults]\nc = 3\n").warnings
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


def test_a_script_is_searched_in_the_current_folder_and_then_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "file").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write(tmp_path / "file", "")
    assert read("../file/sweep.toml").script == "sim.py"
    (tmp_path / "file" / "sim.py").touch()
    assert read("../file/sweep.toml").script == "../file/sim.py"
    (tmp_path / "here" / "sim.py").touch()
    assert read("../file/sweep.toml").script == "sim.py"


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("30m", 1800.0), ("1h30m", 5400.0), ("90", 90.0), ("1d2h3m4s", 93784.0), (" 2M ", 120.0), (0.5, 0.5)],
)
def test_durations_are_parsed(timeout: str | float, seconds: float) -> None:
    assert Settings(timeout=timeout).timeout_s == seconds


@pytest.mark.parametrize(
    "timeout", ["", "m", "30 m", "1h30", "30m1h", "-5", "0", -1, math.nan, math.inf, "1m1m", "inf"]
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
    kept = stored(value)
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
    assert sets(words) == {
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
        (("a=[1,2]",), "leave out the brackets"),
        (("a=1", "a=2"), "a is given twice"),
    ],
)
def test_invalid_set_options_are_named(words: tuple[str, ...], error: str) -> None:
    with pytest.raises(GmgError, match=f"^--set {re.escape(words[-1])}: .*{error}"):
        sets(words)
