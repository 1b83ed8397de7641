"""Every error of the experiments' file is one line with the file, the key, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.errors import GmgError
from gmg_tui.sweep.experiments_file import read
from tests.sweep.making import made, write


def _refusal(folder: Path, text: str, *sets: str, **options: object) -> str:
    with pytest.raises(GmgError) as error:
        made(folder, text, *sets, **options)  # type: ignore[arg-type]
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(folder), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retries = \n", "/sweep.toml is not TOML: Invalid value (at line 2, column 11)"),
        ("script = 'b'\n", "/sweep.toml is not TOML: Cannot overwrite a value (at line 2, column 13)"),
        ("per_gpus = 2\n", "/sweep.toml: unknown key per_gpus; did you mean per_gpu?"),
        ("[presets.a]\n", "/sweep.toml: unknown key presets; did you mean preset?"),
        (
            "lr = 2\n",
            "/sweep.toml: unknown key lr; if {lr} is a placeholder, its value belongs under [defaults] or [grid]",
        ),
        ('"\\n" = 2\n', "/sweep.toml: unknown key '\\n'; the keys are: script, module, args,"),
        ("[preset.a]\ntimeuot = 3\n", "/sweep.toml: unknown key preset.a.timeuot; did you mean timeout?"),
        (
            "[preset.a.preset.b]\n",
            "/sweep.toml: preset.a.preset: a preset cannot contain presets; write [preset.NAME]",
        ),
        ("preset = 3\n", "/sweep.toml: preset is 3; give each a table of its own, as in [preset.quick]"),
        ("[preset]\na = 3\n", "/sweep.toml: preset.a is 3; give it a table of its own, as in [preset.a]"),
        ('[preset."a/b"]\n', "/sweep.toml: preset 'a/b' is 'a/b'; give up to 80 letters, digits and"),
        ("module = 1\n", "/sweep.toml: module is 1; give true or false"),
        ("args = '-x'\n", """/sweep.toml: args is '-x'; give a list, as in ["--lr", "{lr}"]"""),
        ("args = ['a', ['b']]\n", "/sweep.toml: args[2] is a list; give a text in quotes"),
        ("args = [1979-05-27]\n", "/sweep.toml: args[1] is 1979-05-27; give a text in quotes"),
        (
            "args = ['a\\u0000']\n".replace("'", '"'),
            "/sweep.toml: args[1] is 'a\\x00'; give a text in quotes; it cannot contain",
        ),
        ("env = ['A=1']\n", '/sweep.toml: env is a list; give a table, as in { KEY = "value" }'),
        ("env = { 'A-B' = 1 }\n", "/sweep.toml: env: 'A-B' is not a variable name; give letters, digits and '_'"),
        ("env = { A = [] }\n", "/sweep.toml: env.A is empty; give a text in quotes"),
        (
            "gpus = []\n",
            "/sweep.toml: gpus is empty; give a list of indices or UUIDs, as in [0, 2], or what --gpus takes",
        ),
        ("per_gpu = 0\n", "/sweep.toml: per_gpu is 0; give a whole number from 1 to 64"),
        ("per_gpu = 1.0\n", "/sweep.toml: per_gpu is 1.0; give a whole number from 1 to 64"),
        ("retries = true\n", "/sweep.toml: retries is true; give a whole number from 0 to 1000"),
        ("min_free_mib = nan\n", "/sweep.toml: min_free_mib is nan; give a number of mebibytes, 0 or more"),
        ("timeout = '30 min'\n", "/sweep.toml: timeout is '30 min'; give a time, as in"),
        ("out_dir = ''\n", "/sweep.toml: out_dir is ''; give a text in quotes"),
        ("grid = [1]\n", "/sweep.toml: grid is a list; give a table of lists, as in [grid]"),
        ("[grid]\na = 4\n", "/sweep.toml: grid.a is 4; give a list of values, or write it under [defaults]"),
        ("[grid]\na = []\n", "/sweep.toml: grid.a is empty; give it at least one value, or leave it out"),
        ("[preset.p.grid]\na = []\n", "/sweep.toml: preset.p.grid.a is empty; give it at least one value"),
        ("[grid]\na = [[1]]\n", "/sweep.toml: grid.a[1] is a list; give a text, a number or a boolean"),
        ("[grid]\na = [1, 1979-05-27]\n", "/sweep.toml: grid.a[2] is 1979-05-27; give a text, a number or a boolean"),
        ("[grid]\ngpu = [1]\n", "/sweep.toml: grid.gpu: {gpu} is filled in by gmg-tui itself; choose another name"),
        ("[grid]\n'a b' = [1]\n", "/sweep.toml: grid.'a b': 'a b' cannot be a placeholder; give letters, digits,"),
        ("[defaults]\nout_dir = 'x'\n", "/sweep.toml: defaults.out_dir: {out_dir} is filled in by gmg-tui itself"),
        (
            "[defaults]\na = [1, 2]\n",
            "/sweep.toml: defaults.a is a list; a job has one value; lists belong under [grid]",
        ),
        ("[defaults]\noptim.lr = 1\n", "/sweep.toml: defaults.optim is a table; give a text, a number or a boolean;"),
        ("[experiment]\na = 1\n", "/sweep.toml: experiment is a table; write [[experiment]], in two brackets"),
        (
            "[[experiment]]\nname = 'a b'\n",
            "/sweep.toml: experiment[1].name is 'a b'; give up to 80 letters, digits and",
        ),
        ("[[experiment]]\nname = '..'\n", "/sweep.toml: experiment[1].name is '..'; give up to 80 letters"),
        ("[[experiment]]\nseed = 2\n", "/sweep.toml: experiment[1].seed: {seed} is filled in by gmg-tui itself"),
        ("[[experiment]]\na = [2]\n", "/sweep.toml: experiment[1].a is a list; a job has one value"),
        (
            "[[experiment]]\nname = 'a'\n[[experiment]]\n[[experiment]]\nname = 'a'\n",
            "/sweep.toml: experiment[3].name: another job is named a; give each its own name",
        ),
        (
            "args = ['x', '--m={metod}']\n[defaults]\nmethod = 1\nlr = 1\n",
            "/sweep.toml: args[2]: {metod} has no value; did you mean method? (available: lr, method, slot, gpu, i, n, "
            "seed, job, name, out_dir; for literal braces write {{metod}})",
        ),
        ("env = { A = '{x}' }\n", "/sweep.toml: env.A: {x} has no value (available: slot, gpu,"),
        ("[preset.p]\nenv = { A = '{x}' }\n[preset.q]\n", "/sweep.toml: preset.p.env.A: {x} has no value (available:"),
        ("out_dir = 'runs/{x}'\n", "/sweep.toml: out_dir: {x} has no value"),
        ("out_dir = 'runs/{out_dir}'\n", "/sweep.toml: out_dir: {out_dir} is the folder itself; use {job} or {name}"),
        (
            "args = ['{x}']\n[[experiment]]\nx = 1\n[[experiment]]\nname = 'b'\n",
            "/sweep.toml: args[1]: {x} has no value in experiment 2 (b) (available: slot",
        ),
        (
            "out_dir = 'runs/{a}-{slot}'\n[grid]\na = [1, 2]\nb = [3, 4]\n",
            "/sweep.toml: out_dir is the same folder for a=1,b=3 and a=1,b=4; put {name} or {job} into it",
        ),
        (
            f"[grid]\na = {list(range(400))}\nb = {list(range(300))}\n",
            "/sweep.toml: grid makes 120,000 jobs; a sweep can have at most 100,000, so give fewer values",
        ),
    ],
)
def test_an_error_names_the_file_the_key_and_what_would_be_right(tmp_path: Path, text: str, said: str) -> None:
    assert _refusal(tmp_path, text, all_presets="[preset.q]" in text).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"presets": ("c",)}, "--preset c: /sweep.toml has no such preset; the presets are: a, b"),
        ({"presets": ("a", "a")}, "--preset a is given twice; give each once"),
        ({"presets": ("a",), "all_presets": True}, "--preset and --all are mutually exclusive; give one of them"),
        ({"per_gpu": 0}, "--per-gpu is 0; give a whole number from 1 to 64"),
        ({"retries": -1}, "--retries is -1; give a whole number from 0 to 1000"),
        ({"timeout": "soon"}, "--timeout is 'soon'; give a time, as in"),
        ({"min_free_mib": -1.0}, "--min-free-mib is -1.0; give a number of mebibytes, 0 or more"),
        ({"out_dir": ""}, "--out-dir is ''; give a text in quotes"),
        ({"out_dir": "{x}"}, "--out-dir: {x} has no value"),
        ({"args": "a {x}"}, "--args[2]: {x} has no value"),
        ({"words": ("{x}",)}, "after --[1]: {x} has no value"),
        ({"args": "a", "words": ("b",)}, "the arguments are given twice, by --args and after --; give them once"),
        ({"args": "'a"}, "--args 'a: no closing quotation; quote it as for a shell"),
    ],
)
def test_an_option_is_named_as_it_was_given(tmp_path: Path, options: dict[str, object], said: str) -> None:
    assert _refusal(tmp_path, "[preset.a]\n[preset.b]\n", **options).startswith(said)


def test_presets_are_only_asked_of_a_file_that_has_some(tmp_path: Path) -> None:
    assert _refusal(tmp_path, "", presets=("a",)) == "/sweep.toml has no presets; leave out --preset"
    assert _refusal(tmp_path, "", all_presets=True) == "/sweep.toml has no presets; leave out --all"


def test_a_name_that_a_preset_makes_too_long_is_refused(tmp_path: Path) -> None:
    text = f"[[experiment]]\nname = '{'x' * 79}'\n[preset.a]\n[preset.b]\n"
    assert "experiment[1].name: a-xxx" in _refusal(tmp_path, text, all_presets=True)
    assert made(tmp_path, text, presets=("a",)).jobs[0].name == "x" * 79


def test_values_that_nothing_uses_are_a_warning(tmp_path: Path) -> None:
    text = (
        "args = ['{a}']\n[grid]\na = [1]\nb = [2]\n[defaults]\nc = 3\n[preset.p]\nargs = ['{a}', '{b}']\n[preset.q]\n"
    )
    path = str(tmp_path / "sweep.toml")
    assert made(tmp_path, text).warnings == (
        f"{path}: no placeholder uses b, c; write {{b}} where the jobs should get them",
    )
    assert made(tmp_path, text, all_presets=True).warnings == (
        f"{path}: no placeholder uses c; write {{c}} where the jobs should get it",
    )


def test_numbers_and_booleans_are_written_as_text(tmp_path: Path) -> None:
    (batch,) = made(tmp_path, "args = ['-n', 4, 0.5, true]\nenv = { OMP_NUM_THREADS = 4 }\n").batches
    assert batch.args == ("-n", "4", "0.5", "true")
    assert batch.env == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "absent.toml",
            None,
            "there is no experiments file .*absent.toml; give a TOML file, or --script SCRIPT and --set",
        ),
        ("latin.toml", b"script = '\xe4'", "cannot read .*latin.toml: it is not UTF-8"),
        ("sim.py", b"print()", "sim.py is not an experiments file; without one: --script .*sim.py --set KEY=V1,V2"),
        ("deep.toml", b"a = " + b"[" * 5000, "deep.toml is not TOML"),
        ("x" * 300, None, "cannot read|no experiments file"),
    ],
)
def test_what_is_no_file_of_experiments_is_named(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(GmgError, match=said):
        read(str(tmp_path / name))
    with pytest.raises(GmgError, match="is not a regular file; give the path of a TOML file"):
        read(str(tmp_path))


def test_a_script_is_looked_for_in_the_current_folder_and_then_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "file").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = str(Path("..") / "file" / Path(write(tmp_path / "file", "")).name)
    assert read(path).settings.script == "sim.py"
    (tmp_path / "file" / "sim.py").touch()
    assert read(path).settings.script == "../file/sim.py"
    (tmp_path / "here" / "sim.py").touch()
    assert read(path).settings.script == "sim.py"
    (tmp_path / "file" / "sweep.toml").write_text("script = 'pkg.mod'\nmodule = true")
    assert read(path).settings.script == "pkg.mod"
