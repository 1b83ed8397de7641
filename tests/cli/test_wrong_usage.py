"""A mistake on the command line is one line on standard error with what to do, and leaves nothing behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from gmg_tui import session as sessions
from tests.cli.conftest import Gmg
from tests.cli.scripted import environ
from tests.cli.scripted import gmg as run
from tests.nvml_sim import Sim
from tests.patience import LONG_S


@pytest.fixture(autouse=True)
def files(folder: Path) -> Path:
    (folder / "package").mkdir()
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe.py")
    (folder / "page.html").write_text("<html></html>")
    (folder / "bin").mkdir()
    for name, text in (("no-python", "exit 3"), ("bin/no-genesis", f'exec {sys.executable} -I -S "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "sweep.toml").write_text('script = "sim.py"\nargs = ["{lr}"]\n[grid]\nlr = [1]\n')
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left(files: Path) -> Iterator[None]:
    yield
    assert not sessions.sessions_folder().exists() or not list(sessions.sessions_folder().iterdir())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("-B 4096 sim.py", "there is no option -B; gmg-tui run --help lists them, and options of the script go after it"),
        ("tune --lr 1 sim.py", "there is no option --lr; gmg-tui tune --help lists them"),
        ("sweep --retries 2 sweep.toml", "there is no option --retries; gmg-tui sweep --help lists them, and options of a script go after"),
        ("--gpsu 2 sim.py", "there is no option --gpsu; did you mean --gpus?"),
        ("dmeo", "there is no command or script dmeo; did you mean demo?"),
        ("sweeep", "there is no command or script sweeep; did you mean sweep?"),
        ("help", "there is no command or script help; gmg-tui --help lists the commands"),
        ("--simulate 8 sim.py", "--simulate runs the bundled script instead of yours; leave out sim.py"),
        ("--cpu 2 page.html", "page.html is not a Python script; give the path of a Python file"),
        ("--cpu 2 sweep sweep.toml", "options go after the command: gmg-tui sweep …"),
        ("--name x --headless", "give a SCRIPT, as in: gmg-tui sim.py -B 4096"),
        ("demo --simulate 8 --bogus", "there is no option --bogus; gmg-tui demo --help lists them, and"),
        ("demo -B 64", "there is no option -B; gmg-tui demo --help lists them, and options of the example go after --"),
        ("demo sim.py", "sim.py: demo runs the bundled example, whose arguments go after --; to run sim.py: gmg-tui"),
        ("sweep sweep.toml --ddp --bogus", "there is no option --bogus"),
        ("sweep --ddp sweep.toml", "--ddp: a sweep needs the number of ranks per job, as in --ddp 2"),
        ("--gpus --headless sim.py", "--gpus needs a value before --headless, such as --gpus WHAT"),
        ("report --html --csv", "--html needs a value before --csv, such as --html FILE"),
        ("demo --simulate", "--simulate needs a value, such as --simulate N\n"),
        ("sweep --resume", "--resume needs a value, such as --resume NAME\n"),
        ("stop --al", "there is no option --al; did you mean --all?"),
        ("logs --tail 3", "there is no option --tail; gmg-tui logs --help lists them\n"),
        ("sweep --script sim.py --set n=1,2", "--set goes before --script: gmg-tui sweep --set … --script sim.py"),
        ("--cpu 1 sim.py --x {foo}", "{foo} has no value; available: slot, gpu, i, n, seed; for literal braces, write {{foo}}"),
        ("tune sim.py {n_envs} {n_env}", "{n_env} has no value; did you mean n_envs?"),
        ("guide slurm", "there is no topic slurm; see checkpoints, many-machines, options"),
        ("guide tunig", "there is no topic tunig; did you mean tuning?"),
        ("stop --all sim-1", "--all stops all running sessions; leave out the names"),
        ("rm", "give session names, or --older AGE and --keep N, as in: gmg-tui rm --older 30d --keep 5"),
        ("rm --older soon", "--older soon: give a time with a unit, such as 90s, 15m, 1h30m or 30d"),
        ("absent.py", "there is no script absent.py"),
        ("pipe.py", "there is no script pipe.py"),
        ("-m ../sim.py", "-m ../sim.py: give a module's name"),
        ("--gpus 0 --cpu 2 sim.py", "--gpus and --cpu are mutually exclusive"),
        ("--env =1 sim.py", "--env =1: give KEY=VALUE"),
        ("--log-max 900K sim.py", "--log-max 900K: give a size of at least 1M, such as 500M or 2G, or none"),
        ("--interval 61 sim.py", "--interval 61.0 is not in the range 0.2<=x<=60"),
        ("--stuck-after nan sim.py", "--stuck-after nan: give seconds, or a time with a unit"),
        ("--max-restarts 99999999999999999999 sim.py", "--max-restarts 99999999999999999999 is not in the range"),
        ("--notify= sim.py", "--notify is empty"),
        ("--start later sim.py", "--start 'later' is not one of 'gated', 'together', 'staggered'"),
        ("--nodes k8s sim.py", "--nodes k8s: give slurm, ray or ssh:HOST,HOST"),
        ("--ddp 0 sim.py", "--ddp 0: give the number of ranks"),
        ("tune --ddp 2 sim.py {n_envs}", "--ddp: a trial runs on one slot"),
        ("--ddp --start gated sim.py", "--start gated: ranks of a group start together"),
        ("--virtual-local-rank sim.py", "--virtual-local-rank needs --ddp"),
        ("--summary absent/s.json sim.py", "--summary absent/s.json: cannot write to the folder"),
        ("--summary package sim.py", "--summary package: give the path of a file"),
        ("--python absent sim.py", "--python absent"),
        ("--name ../x --cpu 1 sim.py", "--name '../x': give up to 40 letters"),
        ("demo --simulate 65", "--simulate 65 is not in the range 1<=x<=64"),
        ("tune sim.py -B 4096", "the arguments have no {n_envs}: write it in place of the number, as in: gmg-tui"),
        ("tune --var x=9..1 sim.py {x}", "--var x=9..1: give LOW..HIGH from 1 to"),
        ("tune --var gpu sim.py {gpu}", "--var gpu: {gpu} is a placeholder of gmg-tui"),
        ("tune --budget soon sim.py {n_envs}", "--budget soon: give a time with a unit, such as 90s, 15m"),
        ("tune --budget 30 sim.py {n_envs}", "--budget 30: give a time with a unit"),
        ("tune --trial-time 15 sim.py {n_envs}", "--trial-time 15: give a time with a unit"),
        ("sweep sweep.toml --timeout 30", "--timeout: timeout 30: give a time with a unit"),
        ("rm --older 30", "--older 30: give a time with a unit"),
        ("--stuck-after soon sim.py", "--stuck-after soon: give seconds, or a time with a unit"),
        ("--stuck-after 2d sim.py", "--stuck-after 172800.0 is not in the range 2<=x<=86400"),
        ("tune --simulate 2 sim.py", "--simulate runs the bundled script instead of yours; leave out sim.py"),
        ("sweep", "give a FILE, or --set KEY=V1,V2 --script SCRIPT, or --resume NAME"),
        ("sweep --set n_envs 1024", "--set n_envs: give KEY=VALUE or KEY=VALUE,VALUE"),
        ("sweep --set a=1 --script", "--script: give the SCRIPT and its arguments after it, at the end"),
        ("sweep sweep.toml x", "x: a sweep has one FILE; only a SCRIPT (--script) takes arguments"),
        ("sweep absent.toml", "there is no experiments file absent.toml; give a TOML file"),
        ("sweep sim.py", "sim.py is not an experiments file; without one: --set KEY=V1,V2 --script sim.py"),
        ("sweep sweep.toml --retry-failed", "--retry-failed needs --resume NAME"),
        ("sweep sweep.toml --restart always", "--restart always would restart finished jobs forever"),
        ("tune --resume a --env A=1", "--resume a: the measured program and its slots cannot change; leave out --env"),
        ("sweep sweep.toml --resume a --set x=1 --name b", "--resume a: its name and jobs cannot change; leave out --name, --set, FILE"),
    ],
)  # fmt: skip
def test_an_error_suggests_the_correct_usage(gmg: Gmg, words: str, error: str) -> None:
    result = gmg(*words.split())
    assert result.stderr.removeprefix("gmg-tui: ").startswith(error)
    assert (result.stdout, result.stderr.count("\n"), result.returncode) == ("", 1, 2)


def _gmg(*words: str, **variables: str) -> str:
    done = run(*words, **variables)
    assert (done.stdout, done.stderr.count("\n"), done.returncode) == ("", 1, 2)
    return done.stderr.removeprefix("gmg-tui: ")


def test_an_interpreter_without_genesis_names_the_command_that_installs_it() -> None:
    assert "has no Genesis; install it" in _gmg("demo", "--python", "bin/no-genesis")


@pytest.mark.parametrize(
    "gpus", ["9", "0,9", "0,0", "GPU-unknown", "0", "-1", "x", pytest.param("9" * 5000, id="long")]
)
def test_gpus_that_do_not_exist_are_refused_by_the_engine(sim: Sim, gpus: str) -> None:
    assert "--gpus" in _gmg(f"--gpus={gpus}", "sim.py", **sim.env())


def test_without_a_driver_an_option_after_the_script_is_put_before_it() -> None:
    assert _gmg("sim.py", "--cpu", "2").startswith(
        "--cpu goes before the script: gmg-tui --cpu 2 sim.py … (no GPU: NVML"
    )


def test_without_a_driver_the_cpu_is_named(sim: Sim) -> None:
    sim.no_driver()
    assert "--cpu" in _gmg("sim.py", **sim.env())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_unreadable_script_is_refused(files: Path) -> None:
    (files / "sim.py").chmod(0o000)
    program = "import os; from gmg_tui.cli.run_spec import check_script; os.setuid(65534); check_script('sim.py')"
    done = subprocess.run([sys.executable, "-c", program], env=environ(), capture_output=True, text=True)
    assert "GmgError: cannot read sim.py: Permission denied" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_current_folder_that_this_user_cannot_enter_is_refused(files: Path) -> None:
    """As after `su` in a private folder."""
    files.chmod(0o700)
    words = ["--cpu", "1", "--headless", "-m", "sim"]
    program = f"import os; from gmg_tui.cli.app import main; os.setuid(65534); main({words})"
    with tempfile.TemporaryDirectory(dir="/tmp") as state:
        os.chown(state, 65534, -1)
        variables = environ(XDG_STATE_HOME=state)
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=variables, cwd=files, capture_output=True, text=True)
        assert not [*Path(state).rglob("sim*")]
    assert f"the current folder, {files}, cannot be entered" in done.stderr


def test_a_terminal_that_cannot_show_the_screen_names_headless() -> None:
    terminal = pexpect.spawn(
        sys.executable, ["-m", "gmg_tui", "--cpu", "1", "sim.py"], env=environ(TERM="dumb"), timeout=LONG_S
    )
    printed = terminal.read().decode()
    assert "TERM is dumb" in printed
    assert "--headless" in printed
    assert terminal.wait() == 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("word", ["ls", "stauts"])
def test_a_word_runs_no_file_of_another_user(files: Path, word: str) -> None:
    """In a folder of all users, anyone could have called it like a command, or like a mistyped one."""
    (files / word).write_text("print('run')")
    os.chown(files / word, 4242, 4242)
    done = run("--cpu", "1", "--headless", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"for the script of another user: ./{word}" in done.stderr
