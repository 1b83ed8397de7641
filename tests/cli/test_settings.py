"""The file of settings, as the commands use it, and what they say where it is wrong."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session as sessions
from gmg_tui.model import RunSpec, StartMode
from tests.cli.scripted import ROOT, environ

pytestmark = pytest.mark.usefixtures("nothing_is_left")

_SCRIPT = """
import os
print("step 1 at 12.5 steps/s, FOO is", os.environ.get("FOO"))
"""


@pytest.fixture
def file() -> Path:
    """The file of settings, which is not there yet."""
    path = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def sim(tmp_path: Path) -> Path:
    """A script that prints a line."""
    path = tmp_path / "sim.py"
    path.write_text(_SCRIPT)
    return path


def _gmg(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", *map(str, words)]
    return subprocess.run(command, env=environ(**env), capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _spec(name: str) -> RunSpec:
    """What a session was told."""
    found = sessions.inspect(sessions.sessions_folder() / name)
    assert found is not None
    return found.record.session.spec


def _uncommented(example: str) -> str:
    return re.sub(r"(?m)^#(?=[^ ])", "", example)


def test_a_setting_counts_where_the_command_line_says_nothing(file: Path, sim: Path) -> None:
    file.write_text('[options]\ncpu = 2\nmax-restarts = 7\nenv = "FOO=set"\n[options.run]\nmax_restarts = 9\n')
    assert _gmg("--name", "one", sim).returncode == 0
    one = _spec("one")
    assert (one.cpu, one.max_restarts, one.env) == (2, 9, {"FOO": "set"})
    assert _gmg("--name", "two", "--cpu", "1", "--max-restarts", "1", "--env", "BAR=1", sim).returncode == 0
    two = _spec("two")
    assert (two.cpu, two.max_restarts, two.env) == (1, 1, {"BAR": "1"})


def test_a_setting_that_means_the_opposite_of_an_option_does_not_count(file: Path, sim: Path) -> None:
    file.write_text('[options]\ngpus = "0,1"\nstart = "staggered"\nmin-nodes = 2\nflight-recorder = true\n')
    assert _gmg("--cpu", "1", "--name", "one", sim).returncode == 0
    assert (_spec("one").gpus, _spec("one").start, _spec("one").ddp) == (None, StartMode.STAGGERED, None)
    assert _gmg("--cpu", "2", "--ddp", "--name", "two", sim).returncode == 0
    ddp = _spec("two").ddp
    assert ddp is not None
    assert ddp.flight_recorder
    assert _spec("two").start is None


def test_an_experiments_file_wins_over_settings_and_the_command_line_over_both(file: Path, sim: Path) -> None:
    file.write_text('[options]\ncpu = 1\n[options.sweep]\nretries = 3\nrepeat = 2\nenv = ["FOO=settings", "BAR=b"]\n')
    jobs = sim.with_name("jobs.toml")
    jobs.write_text(f'script = "{sim}"\nretries = 1\n[env]\nFOO = "file"\n[grid]\nx = [1, 2]\n')
    for name, words, retries, repeat in (("one", (), 1, 2), ("two", ("--retries", "0", "--repeat", "1"), 0, 1)):
        done = _gmg("sweep", jobs, "--name", name, *words)
        assert done.returncode == 0, done.stderr
        sweep = _spec(name).sweep
        assert sweep is not None
        (batch,) = sweep.batches
        assert batch.retries == retries
        assert batch.env == {"FOO": "file", "BAR": "b"}
        assert len(json.loads(_gmg("report", name, "--json").stdout)["jobs"]) == 2 * repeat


def test_a_sweep_that_is_resumed_keeps_what_it_had(file: Path, sim: Path) -> None:
    jobs = sim.with_name("jobs.toml")
    sim.write_text("import os, sys; sys.exit(not os.path.exists('go'))")
    jobs.write_text(f'script = "{sim}"\n[grid]\nx = [1]\n')
    assert _gmg("sweep", jobs, "--name", "one", "--cpu", "1").returncode == 1
    before = _spec("one")
    file.write_text(
        '[options]\nlog-max = "5M"\nstart = "staggered"\nenv = "A=1"\ncpu = 3\n[options.sweep]\nretries = 5\n'
    )
    done = _gmg("sweep", "--resume", "one", "--retry-failed")
    assert "1 failed" in done.stdout, done.stderr
    after = _spec("one")
    assert (after.cpu, after.start, after.env, after.log_max_bytes) == (1, None, {}, None)
    assert before.sweep is not None
    assert after.sweep is not None
    assert after.sweep.batches == before.sweep.batches


def test_the_patterns_of_a_script_are_read_and_the_option_wins(file: Path, sim: Path) -> None:
    file.write_text("[options]\ncpu = 1\n[patterns]\n'other*' = '(?P<done>\\d+)'\n'si*' = '(?P<fps>[\\d.]+) steps'\n")
    assert _gmg("--name", "one", sim).returncode == 0
    assert _spec("one").patterns == ("(?P<fps>[\\d.]+) steps",)
    assert json.loads(Path(_spec("one").folder, "summary.json").read_text())["total_fps"] == 12.5
    assert _gmg("--name", "two", "--pattern", "at (?P<fps>1)", sim).returncode == 0
    assert _spec("two").patterns == ("at (?P<fps>1)",)
    jobs = sim.with_name("jobs.toml")
    jobs.write_text(f'script = "{sim}"\n[grid]\nx = [1]\n')
    assert _gmg("sweep", jobs, "--name", "three").returncode == 0
    assert _spec("three").patterns == ("(?P<fps>[\\d.]+) steps",)


_WRONG = [
    ("[options]\n\ngpuss = 1", 3, "no option gpuss; did you mean gpus?"),
    ("[options.rnu]\ngpus = 1", 1, "no such command; did you mean run?"),
    ("[options.attach]\nper-gpu = 1", 2, "sweep has it"),
    ("[option]\n", 1, "did you mean options?"),
    ("interval = 1", 1, "it stands in [options]"),
    ("options = 1", 1, "[options]"),
    ('[options]\ncpu = "two"', 2, 'cpu = "two": give a number'),
    ("[options]\ncpu = 1.5", 2, "whole number"),
    ("[options]\nrestart-stuck = 1", 2, "true or false"),
    ('[options]\nrestart = "often"', 2, "'never', 'startup', 'failure', 'always'"),
    ("[options]\nenv = [[1]]", 2, "env = [[1]]"),
    ('[options]\nname = "x"', 2, "each time"),
    ('[options]\ntheme = "dark"', 2, "above all tables"),
    ('theme = "drak"', 1, "did you mean dark?"),
    ("theme = 1", 1, "choose one of dark"),
    ('[keys]\nrestrat = "f5"', 2, "did you mean restart?"),
    ('[keys]\nstop = "f5"\nrestart = [\n  "x",\n  "f5",\n]', 3, "f5 is the key of stop"),
    ('[keys]\nrestart = "x"', 2, "x is the key of stop; give stop another one too"),
    ('[keys]\nrestart = ""', 2, "give a key"),
    ("[patterns]\n'a.py' = '(?P<fsp>1)'", 2, "the group fsp has no meaning"),
    ("[patterns]\n'a.py' = 1", 2, "give a text"),
    ("[options]\ngpus =", 2, "is not TOML"),
]


@pytest.mark.parametrize(("text", "line", "said"), _WRONG)
def test_what_is_wrong_is_one_line_with_its_place_and_nothing_starts(
    file: Path, sim: Path, text: str, line: int, said: str
) -> None:
    file.write_text(text)
    for words in (("config", "--check"), ("--cpu", "1", sim)):
        done = _gmg(*words)
        assert done.returncode == 2
        assert done.stderr.startswith(f"gmg-tui: {file}:{line}: ")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""


@pytest.mark.parametrize("command", ["sweep --script sim.py --set x=1", "tune sim.py -B {n_envs}", "demo --simulate 1"])
def test_nothing_else_starts_either(file: Path, sim: Path, command: str) -> None:
    file.write_text("[options]\nbad = 1")
    done = _gmg(*command.replace("sim.py", str(sim)).split())
    assert done.returncode == 2
    assert f"{file}:2: " in done.stderr


def test_a_value_that_only_a_run_can_judge_is_blamed_on_its_line(file: Path, sim: Path) -> None:
    file.write_text("[options]\nheadless = true\n# fast\ninterval = 0.001\n")
    for words in (("--cpu", "1", sim), ("config", "--check")):
        done = _gmg(*words)
        assert done.returncode == 2
        assert done.stderr == f"gmg-tui: {file}:4: --interval 0.001: give a number from 0.2 to 60 seconds\n"
    given = _gmg("--cpu", "1", "--interval", "0.01", sim)
    assert given.stderr == "gmg-tui: --interval 0.01: give a number from 0.2 to 60 seconds\n"


@pytest.mark.parametrize("text", ["[options]\nbad = 1", "[options\n"])
def test_commands_that_look_or_end_go_on_with_a_broken_file(file: Path, text: str) -> None:
    file.write_text(text)
    for words in (("--version",), ("--help",), ("run", "--help"), ("ls",), ("completion", "bash"), ("man",)):
        done = _gmg(*words)
        assert (done.returncode, done.stderr) == (0, ""), words
    for words, line in ((("doctor",), "ok "), (("logs", "cpu0"), ""), (("attach",), ""), (("report",), "")):
        done = _gmg(*words)
        assert done.stderr.startswith(f"gmg-tui: {file}:"), words
        assert line in done.stdout
    stop = _gmg("stop")
    assert "no running session" in stop.stderr
    assert str(file) not in stop.stderr
    assert _gmg("config").returncode == 0
    assert _gmg("config", "--path").stdout == f"{file}\n"


def test_several_faults_are_told_in_their_order_by_check(file: Path) -> None:
    file.write_text('theme = "x"\n[options]\na = 1\nb = 2\n')
    done = _gmg("config", "--check")
    assert [line.split(":")[2] for line in done.stderr.splitlines()] == ["1", "3", "4"]
    assert "(and 2 more: gmg-tui config --check)" in _gmg("--cpu", "1", "sim.py").stderr


def test_the_example_is_right_with_and_without_its_marks(file: Path) -> None:
    example = _gmg("config", "--example").stdout
    for text in (example, _uncommented(example)):
        file.write_text(text)
        done = _gmg("config", "--check")
        assert (done.returncode, done.stderr) == (0, "")
        assert ": fine, " in done.stdout
    assert "nothing" not in done.stdout


def test_the_example_explains_each_option_key_and_theme() -> None:
    lines = _gmg("config", "--example").stdout.splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"#[^ ]", line):
            assert re.match(r"# .", before), line  # an explanation
    settings = {line.partition(" =")[0] for line in lines}
    for name in (
        "theme",
        "gpus",
        "stuck-after",
        "no-mouse",
        "per-gpu",
        "headroom",
        "restart",
        "restart-failed",
        "palette",
    ):
        assert f"#{name}" in settings
    assert not [line for line in lines if line.endswith('= ""')]


def test_the_settings_in_the_readme_are_right(file: Path) -> None:
    readme = (ROOT / "README.md").read_text().partition("\n## Settings\n")[2]
    file.write_text(readme.partition("```toml\n")[2].partition("```")[0])
    done = _gmg("config", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fine, 8 things are set" in done.stdout


def test_what_is_set_is_listed_with_its_line(file: Path) -> None:
    assert "there is no such file" in _gmg("config").stdout
    file.write_text('theme = "light"\n\n[options]\ncpu = 2\n[keys]\nrestart = ["f5", "ctrl+r"]\n')
    lines = [line.split(maxsplit=1) for line in _gmg("config").stdout.splitlines()]
    assert lines[0] == [str(file)]
    assert [line[0] for line in lines[2:]] == ["1", "4", "6"]
    assert lines[2][1].split() == ["theme", '"light"']
    assert lines[4][1].endswith('["f5", "ctrl+r"]')
    assert _gmg("config", "--path", "--check").returncode == 2


def test_another_file_or_none_can_be_named(file: Path, sim: Path, tmp_path: Path) -> None:
    file.write_text("[options]\nbad = 1")
    assert _gmg("--cpu", "1", "--name", "one", sim, GMG_TUI_CONFIG="").returncode == 0
    other = tmp_path / "other.toml"
    other.write_text("[options]\ncpu = 1\n")
    assert _gmg("--name", "two", sim, GMG_TUI_CONFIG=str(other)).returncode == 0
    assert _spec("two").cpu == 1
