"""The grammar of the command line, the effect of its options, and its help."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.cli import app as cli
from gmg_tui.cli.attach import draws_utf8
from gmg_tui.model import RestartMode, RunSpec, StartMode
from gmg_tui.session.options import CONFIG, RUN
from tests.cli.conftest import Gmg
from tests.cli.scripted import COMMAND, environ

SpecOf = Callable[..., RunSpec]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "args", "changes"),
    [
        ("sim.py ls -h --gpus 2 -- x", ("ls", "-h", "--gpus", "2", "--", "x"), {"own_options": ("--gpus",)}),
        ("--cpu 2 sim.py --cpu 3", ("--cpu", "3"), {"cpu": 2}),
        ("--name=ls sim.py", (), {"name": "ls"}),
        ("run --cpu 2 -- sim.py -B 4", ("-B", "4"), {"cpu": 2}),
        ("-m sim --x", ("--x",), {"module": True, "script": "sim"}),
        ("--ddp sim.py --ddp 3", ("--ddp", "3"), {}),
        ("--gpus 4 --ddp 2 sim.py 4", ("4",), {"gpus": "4"}),
        ("tune sim.py {n_envs} --settle 3", ("{n_envs}", "--settle", "3"), {"own_options": ("--settle",)}),
        ("sweep --script sim.py --per-gpu 2", ("--per-gpu", "2"), {}),
    ],
)
def test_arguments_after_the_script_belong_to_the_script(
    spec_of: SpecOf, words: str, args: tuple[str, ...], changes: dict[str, object]
) -> None:
    spec = spec_of(*words.split())
    assert spec.args == args
    assert {name: getattr(spec, name) for name in changes} == changes


def _options(spec: RunSpec) -> dict[str, Any]:
    unset = {"name", "folder", "socket", "script", "args", "cwd", "python", "path_owners", "host", "cpu"}
    return {name: getattr(spec, name) for name in spec.__struct_fields__ if name not in unset}


@pytest.mark.usefixtures("folder")
def test_missing_options_have_the_defaults_of_the_model(spec_of: SpecOf) -> None:
    defaults = RunSpec("far", "/far", "/far.sock", "sim.py", (), "/", "python")
    assert _options(spec_of("--cpu", "1", "sim.py")) == _options(defaults)


@pytest.mark.usefixtures("folder")
def test_each_option_reaches_the_engine(spec_of: SpecOf) -> None:
    words = (
        "--cpu 1 --interval 2 --start staggered --restart failure --max-restarts 7 --stuck-after 1m30s --on stuck=restart "
        "--no-probe --sigint-wait 40 --sigterm-wait 0.5 --log-max 1.5GiB "
        "--pattern (?P<fps>\\d+) --notify bell --summary s.json"
    )
    changed = _options(spec_of(*words.split(), "sim.py"))
    assert Path(changed.pop("summary")).name == "s.json"
    expected = {
        "interval_s": 2.0,
        "start": StartMode.STAGGERED,
        "restart": RestartMode.FAILURE,
        "max_restarts": 7,
        "stuck_after_s": 90.0,
        "on": {"stuck": "restart"},
        "probe": False,
        "sigint_wait_s": 40.0,
        "sigterm_wait_s": 0.5,
        "log_max_bytes": 3 << 29,
        "patterns": (r"(?P<fps>\d+)",),
        "notify": ("bell",),
    }
    assert {name: changed[name] for name in expected} == expected


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("size", "most_bytes"), [("1M", 1 << 20), ("2g", 2 << 30), ("0.5T", 1 << 39), ("none", None)])
def test_size_formats_of_log_limits(spec_of: SpecOf, size: str, most_bytes: int | None) -> None:
    assert spec_of("--log-max", size, "sim.py").log_max_bytes == most_bytes


@pytest.mark.usefixtures("folder")
def test_simulated_gpus_run_the_bundled_script(spec_of: SpecOf) -> None:
    spec = spec_of("demo", "--simulate", "8", "--", "--steps", "5")
    assert (spec.name, spec.simulate, Path(spec.script).name) == ("simulated-1", 8, "worker.py")
    assert spec.args == ("-B", "4096", "--race", "1", "--oom", "7", "--steps", "5")
    assert spec_of("demo", "--simulate", "8", "--ddp").args == ("-B", "4096", "--race", "1")
    assert spec_of("--simulate", "1").args == ("-B", "4096")
    assert spec_of("tune", "--simulate", "2").args == ("-B", "{n_envs}")


@pytest.mark.parametrize("command", ["", *cli._group.commands])
def test_each_help_fits_on_a_screen(gmg: Gmg, command: str) -> None:
    done = gmg(*command.split(), "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) <= 40
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_help_of_run_lists_the_options_of_each_run(gmg: Gmg) -> None:
    output = gmg("run", "--help").stdout
    for option in RUN:
        assert (f" {option.long} " in output.replace("\n", " \n")) is (CONFIG not in option.marks), option.name


def test_without_arguments_ten_lines_are_printed(gmg: Gmg) -> None:
    done = gmg()
    assert (done.stdout.count("\n"), done.stderr, done.returncode) == (10, "", 2)


@pytest.mark.parametrize(
    ("environment", "encoding", "utf8"),
    [
        ({}, "utf-8", True),
        ({"LANG": "de_DE.UTF-8"}, "utf-8", True),
        ({"LANG": "C"}, "utf-8", True),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, "utf-8", False),
        ({"LC_ALL": "C.utf8", "LANG": "de_DE.ISO-8859-1"}, "utf-8", True),
        ({}, "ascii", False),
    ],
)
def test_environments_with_more_than_ascii(environment: dict[str, str], encoding: str, utf8: bool) -> None:
    assert draws_utf8(environment, encoding) is utf8


def test_a_full_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "ls"], stdout=full, stderr=subprocess.PIPE, text=True, env=environ())
    error = "gmg-tui: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (1, error)


@pytest.mark.parametrize("closed", ["ls >&-", "guide files <&- >/dev/null"])
def test_a_closed_standard_stream_is_no_error(closed: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, env=environ())
    assert (done.returncode, done.stderr) == (0, "")
