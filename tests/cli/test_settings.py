"""`config.toml`, as the commands use it, and what they report where it is wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gmg_tui.model import DdpSpec, RunSpec, StartMode
from tests.cli.conftest import Asked, Gmg

pytestmark = pytest.mark.usefixtures("folder")
SpecOf = Callable[..., RunSpec]


@pytest.fixture
def file() -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    path.parent.mkdir(parents=True)
    return path


def test_a_setting_applies_unless_given_on_the_command_line(file: Path, spec_of: SpecOf) -> None:
    file.write_text('cpu = 2\nmax-restarts = 7\nenv = "FOO=set"\n[run]\nmax_restarts = 9\n')
    spec = spec_of("sim.py")
    assert (spec.cpu, spec.max_restarts, spec.env) == (2, 9, {"FOO": "set"})
    spec = spec_of("--cpu", "1", "--max-restarts", "1", "--env", "BAR=1", "sim.py")
    assert (spec.cpu, spec.max_restarts, spec.env) == (1, 1, {"FOO": "set", "BAR": "1"})


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_settings_of_another_user_are_not_used(file: Path, spec_of: SpecOf, gmg: Gmg) -> None:
    file.write_text('notify = "touch /tmp/owned"\nenv = "FOO=set"\n')
    os.chown(file, 65534, -1)
    assert spec_of("--cpu", "1", "sim.py").env == {}
    assert f"settings are not used: {file} belongs to user 65534\n" in gmg("--cpu", "1", "missing.py").stderr


def test_variables_of_a_table_add_to_those_above_all_tables(file: Path, spec_of: SpecOf) -> None:
    file.write_text('cpu = 1\nenv = ["FOO=all", "BAR=all"]\n[run]\nenv = ["BAR=run", "BAZ=run"]\n')
    assert spec_of("sim.py").env == {"FOO": "all", "BAR": "run", "BAZ": "run"}
    assert spec_of("--env", "BAZ=line", "sim.py").env == {"FOO": "all", "BAR": "run", "BAZ": "line"}


def test_line_readers_reach_the_session_and_are_validated(file: Path, spec_of: SpecOf, gmg: Gmg) -> None:
    file.write_text("[readers.mine]\nlines = ['speed (?P<fps>\\d+)']\n")
    assert spec_of("sim.py").readers == {"mine": {"lines": [r"speed (?P<fps>\d+)"]}}
    file.write_text("[readers.mine]\nlines = ['(']\n")
    assert f"{file}: [readers.mine] '(': not a regular expression" in gmg("--cpu", "1", "sim.py").stderr


def test_an_option_overrides_a_contradicting_setting(file: Path, spec_of: SpecOf) -> None:
    file.write_text('gpus = "0,1"\nstart = "staggered"\nvirtual-local-rank = true\n')
    spec = spec_of("--cpu", "1", "sim.py")
    assert (spec.gpus, spec.start, spec.ddp) == (None, StartMode.STAGGERED, None)
    spec = spec_of("--cpu", "2", "--ddp", "sim.py")
    assert spec.ddp.virtual_local_rank
    assert spec.start is None
    file.write_text("ddp = true\n")
    assert spec_of("sim.py").ddp == DdpSpec()


def test_an_experiments_file_overrides_settings_and_the_command_line_both(
    file: Path, spec_of: SpecOf, asked: Asked
) -> None:
    file.write_text('cpu = 1\n[sweep]\nper-gpu = 3\nenv = ["FOO=settings", "BAR=b"]\n')
    Path("jobs.toml").write_text('script = "sim.py"\nper_gpu = 1\n[env]\nFOO = "file"\n[grid]\nx = [1, 2]\n')
    for words, per_gpu, env in (
        ("", 1, {"FOO": "file", "BAR": "b"}),
        ("--per-gpu 2 --env FOO=line", 2, {"FOO": "line", "BAR": "b"}),
    ):
        spec = spec_of("sweep", "jobs.toml", *words.split())
        assert (spec.sweep.per_gpu, spec.env) == (per_gpu, env)
        assert len(asked.jobs[-1]) == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("gpuss = 1", "gpuss is not a setting; did you mean gpus?"),
        ("[rnu]\ngpus = 1", "rnu is not a setting; did you mean run?"),
        ("[attach]\nper-gpu = 1", "[attach] per-gpu is not a setting"),
        ('env = ["A=\\u0000"]', "env contains a NUL character; remove it"),
        ("run = 2", "run is not a setting; it is a table: [run]"),
        ('python = ".venv/bin/python"', "give an absolute path; the current folder may be another user's"),
        ('cpu = "two"', "--cpu 'two' is not a valid integer"),
        ("max-restarts = 1.5", "--max-restarts '1.5' is not a valid integer"),
        ("cpu = true", "cpu = True: give a value"),
        ("no-probe = 1", "give true or false"),
        ('restart = "often"', "--restart 'often' is not one of 'never', 'startup', 'failure', 'always'"),
        ('name = "x"', "name is not a setting; give --name on the command line"),
        ('[keys]\nrestrat = "f5"', "there is no action restrat; did you mean restart?"),
        ('[keys]\nrestart = "x"', "[keys] restart: x is already bound to stop; remap stop too"),
        ("[themes.dark]\nprimary = 'red'", "[themes.dark] is built in; choose another name"),
        (
            "[themes.my]\nbase = 'ansi'",
            "[themes.my] base = 'ansi' is not a built-in theme; give dark, light or contrast",
        ),
        ("[themes.my]\nprimry = 'red'", "[themes.my] primry is not a theme colour; did you mean primary?"),
        (f"[themes.my]\nprimary = 'rgb({'9' * 400},1,1)'", "9,1,1)' is not a colour; give #rrggbb"),
        (f"[keys]\nstop = '{'a' * 1_000_000}'", "aa … aa"),
        ("[themes.my]\nprimary = 'reddd'", "[themes.my] primary = 'reddd' is not a colour; give #rrggbb"),
        ("theme = 'my'", "--theme 'my' is not one of 'dark'"),
        ("readers = 3", "Expected `object`, got `int` - at `$.readers`"),
        ("[readers.mine]\nline = []", "[readers.mine] Object contains unknown field `line`"),
        ("cpu =", "is not TOML"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line_and_nothing_starts(
    file: Path, gmg: Gmg, text: str, error: str
) -> None:
    file.write_text(text)
    done = gmg("sim.py")
    assert done.stderr.startswith(f"gmg-tui: {file}: ")
    assert error in done.stderr
    assert (done.stderr.count("\n"), done.stdout, done.returncode) == (1, "", 2)


def test_a_file_that_is_a_pipe_is_refused(file: Path, gmg: Gmg) -> None:
    os.mkfifo(file)
    assert gmg("sim.py").stderr == f"gmg-tui: {file}: cannot be read: not a regular file\n"


def test_an_error_about_a_setting_names_the_file(file: Path, gmg: Gmg) -> None:
    file.write_text("headless = true\ninterval = 0.001\n")
    error = "is not in the range 0.2<=x<=60\n"
    assert gmg("--cpu", "1", "sim.py").stderr == f"gmg-tui: {file}: --interval 0.001 {error}"
    assert gmg("--cpu", "1", "--interval", "0.01", "sim.py").stderr == f"gmg-tui: --interval 0.01 {error}"
    file.write_text("pattern = 'x'\n")
    assert gmg("--cpu", "1", "sim.py").stderr.startswith(f"gmg-tui: {file}: --pattern 'x': no named group")
    assert gmg("--cpu", "1", "--pattern", "y", "sim.py").stderr.startswith("gmg-tui: --pattern 'y'")


@pytest.mark.process  # git, for the commit
@pytest.mark.parametrize("text", ["bad = 1", "[options\n"])
def test_commands_that_do_not_start_or_draw_ignore_a_broken_file(file: Path, gmg: Gmg, text: str) -> None:
    file.write_text(text)
    for words in ("--version", "--help", "run --help", "ls"):
        done = gmg(*words.split())
        assert (done.returncode, done.stderr) == (0, ""), words
    assert "no running session" in gmg("stop").stderr
