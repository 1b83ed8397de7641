"""`sweep --add`: jobs for a sweep that runs."""

import shlex
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli.attach import await_end
from gmg_tui.cli.sweep import _session_settings
from gmg_tui.model import JobRecord
from gmg_tui.session import STORE
from gmg_tui.session.store import reader
from tests.cli.scripted import gmg
from tests.engine.harness import spec_for
from tests.patience import LONG_S

JOB = str(Path(__file__).parents[1] / "job.py")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A sweep called `old` on one slot whose jobs end once the file that is returned exists."""
    go = tmp_path / "go"
    args = ("--until", str(go), "--value", "{lr}-{wd}-{seed}")
    sets = ("--set", "lr=1,2", "--set", "wd=3", "--set", "seed=5")
    done = gmg("sweep", "--detach", "--cpu", "1", "--name", "old", *sets, "--script", JOB, *args, "--result")
    assert (done.returncode, done.stderr) == (0, "")
    return go


def _values(folder: Path) -> dict[str, object]:
    return {job.name: (job.values, job.args is None) for job in reader.load_jobs(folder / STORE)}


def test_added_jobs_run_with_the_values_that_all_others_share(begun: Path, tmp_path: Path) -> None:
    folder = sessions.find("old", running=True).folder
    done = gmg("sweep", "--add", "old", "--set", "lr=2,7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 jobs added to old\n", "")
    file = tmp_path / "more.toml"
    file.write_text(
        f'script = "{JOB}"\nargs = ["--value", "{{wd}}"]\ntimeout = "2m"\n[[experiment]]\nname = "wide"\nwd = 9\n'
    )
    done = gmg("sweep", "--add", "old", str(file))
    assert (done.returncode, done.stderr) == (0, f"gmg-tui: {file}: timeout: the session keeps its own\n")
    listed = gmg("sweep", "--add", "old", "--set", "lr=8", "--dry-run").stdout.splitlines()
    assert listed[1].split(None, 2)[:2] == ["6", "lr=8"]
    assert shlex.split(listed[1])[-3:] == ["--value", "8-3-5", "--result"]
    begun.touch()
    shared = {"wd": 3, "seed": 5}
    assert await_end(folder, LONG_S)
    assert _values(folder) == {
        "lr=1": ({"lr": 1, **shared}, True),
        "lr=2": ({"lr": 2, **shared}, True),
        "lr=2-2": ({"lr": 2, **shared}, True),
        "lr=7": ({"lr": 7, **shared}, True),
        "wide": ({"wd": 9}, False),
    }
    after = gmg("sweep", "--add", "old", "--set", "lr=1")
    assert (after.returncode, after.stderr) == (1, "gmg-tui: old has ended; start another sweep\n")


def test_a_sweep_whose_jobs_all_have_arguments_of_their_own_has_defaults() -> None:
    jobs = [JobRecord(number, f"job-{number}", {"lr": number, "wd": 3}, args=("--x",)) for number in (1, 2)]
    assert _session_settings(spec_for("--lr", "{lr}"), jobs).defaults == {"wd": 3}


def test_jobs_with_different_ranks_and_values_have_the_ranks_that_a_value_names_or_those_of_the_first() -> None:
    first = JobRecord(1, "job-1", {"note": 1, "ranks": 1}, world_size=1)
    jobs = [first, JobRecord(2, "job-2", {"ranks": 2}, world_size=2)]
    assert _session_settings(spec_for(), jobs).ddp == "{ranks}"
    assert _session_settings(spec_for(), [structs.replace(job, values={"a": 9}) for job in jobs]).ddp == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "--add old: give --set KEY=V1,V2, or a FILE"),
        (("--set", "lr=1", "--per-gpu", "2"), "--add old: the session's options cannot change; leave out --per-gpu"),
        (("--set", "a=1", "--script", __file__), f"old runs {JOB}, not {__file__}; start another sweep for that"),
        (
            ("--set", "lr=1", "--script", JOB, "{wide}"),
            "--add old: args[1]: {wide} has no value in the grid; available:",
        ),
    ],
)
def test_jobs_that_cannot_be_added(begun: Path, words: tuple[str, ...], error: str) -> None:
    done = gmg("sweep", "--add", "old", *words)
    assert done.stderr.startswith(f"gmg-tui: {error}")
    assert done.returncode in {1, 2}
    assert len(_values(sessions.find("old", running=True).folder)) == 2
