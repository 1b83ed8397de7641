"""What is read from a job's variables, and the text of the file for sbatch. No Slurm is needed."""

from __future__ import annotations

import re
import subprocess

import pytest

from gmg_tui.cli import main
from gmg_tui.commands.slurm_script import slurm_script
from gmg_tui.errors import GmgError
from gmg_tui.model import Allocation
from gmg_tui.slurm import allocation, batch_file

_JOB = {"SLURM_JOB_ID": "42"}


@pytest.mark.parametrize(
    ("environ", "count", "expected"),
    [
        ({}, 8, None),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 2, "0,1"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GPUS": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_STEP_GPUS": "2,3"}, 8, "2,3"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "1", "SLURM_STEP_GPUS": "2,3"}, 8, "1"),
        (_JOB | {"CUDA_VISIBLE_DEVICES": "GPU-ab,GPU-cd", "SLURM_STEP_GPUS": "2,3"}, 8, "GPU-ab,GPU-cd"),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, 8, "0,1"),
    ],
)
def test_a_jobs_gpus_are_told_from_what_counts_from_0(
    environ: dict[str, str], count: int, expected: str | None
) -> None:
    assert allocation.visible(environ, count) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1795400007\n", 1795400007.0), ("N/A\n", None), (None, None), ("", None)]
)
def test_when_a_job_ends(text: str | None, expected: float | None) -> None:
    assert allocation.end_of(text) == expected


def test_what_is_left_is_short_in_the_last_ten_minutes() -> None:
    job = Allocation("42", ends=1000.0)
    assert allocation.left(job, 1000.0 - 7200) == ("Slurm 42: 2h 00m left", False)
    assert allocation.left(job, 500.0) == ("Slurm 42: 8:20 left", True)
    assert allocation.left(job, 2000.0) == ("Slurm 42: 0 s left", True)
    assert allocation.left(Allocation("42"), 0.0) is None
    assert allocation.left(None, 0.0) is None


@pytest.mark.parametrize("command", ["run", "sweep", "tune", "demo"])
def test_the_file_is_a_script_that_bash_reads_and_keeps_every_word(command: str) -> None:
    wanted = batch_file.Wanted("sim", 4, "4:00:00", "long", 120, ("--account=robots",))
    words = ["my sim.py", "--note", "it's $HOME", "{n_envs}"]
    text = batch_file.text(wanted, "/opt/a b/gmg-tui", command, words)
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert f"{command} --headless --name \"$name\" 'my sim.py' --note 'it'\"'\"'s $HOME' '{{n_envs}}' &" in text
    for directive in (
        "--gpus-per-node=4",
        "--time=4:00:00",
        "--partition=long",
        "--signal=B:USR1@120",
        "--account=robots",
    ):
        assert f"#SBATCH {directive}\n" in text
    assert (f"{command} --headless --resume" in text) == (command in ("sweep", "tune"))


def _printed(*words: str, gpus_per_node: int = 8, save_before: str = "5m", sbatch: tuple[str, ...] = ()) -> int:
    own = words[1:-1] if words[0] == "run" else words[1:]
    return slurm_script(
        words, own=own, gpus_per_node=gpus_per_node, time=None, partition=None, save_before=save_before, sbatch=sbatch
    )


def test_the_job_is_called_after_the_script_and_asks_for_gpus_unless_it_runs_on_the_cpu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _printed("run", "train/franka walk.py") == 0
    out = capsys.readouterr().out
    assert "#SBATCH --job-name=franka-walk\n" in out or "#SBATCH --job-name=franka_walk\n" in out
    assert "#SBATCH --gpus-per-node=8\n" in out
    assert _printed("sweep", "--cpu", "2", "sweep.toml") == 0
    out = capsys.readouterr().out
    assert "--gpus-per-node" not in out
    assert "--time" not in out


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("gpus",), {}, "slurm-script gpus: give what runs a session"),
        (("run", "--name", "a", "sim.py"), {}, "leave out --name, which the file gives itself"),
        (("sweep", "--resume=a"), {}, "leave out --resume"),
        (("run", "sim.py"), {"gpus_per_node": 0}, "--gpus-per-node 0: give at least 1"),
        (("run", "sim.py"), {"save_before": "1s"}, "--save-before 1s: give a time from 10 s to 18h"),
        (("run", "sim.py"), {"save_before": "soon"}, "--save-before is 'soon'; give a time"),
        (("run", "sim.py"), {"sbatch": ("account=x",)}, "--sbatch: give an option of sbatch in one word"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: tuple[str, ...], options: dict[str, object], said: str) -> None:
    with pytest.raises(GmgError) as caught:
        _printed(*words, **options)  # type: ignore[arg-type]
    assert said in str(caught.value)


_NO_NUMBER = "gmg-tui: slurm-script --nodes slurm: say how many nodes the job has, as in --sbatch=--nodes=2\n"


@pytest.mark.parametrize("where", [("--nodes", "slurm"), ("--nodes=slurm",)])
def test_a_session_on_several_nodes_needs_their_number(where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["slurm-script", *where, "sim.py"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", _NO_NUMBER)
    assert _status(["slurm-script", "sweep", *where, "sweep.toml"]) == 2
    assert capsys.readouterr().err == _NO_NUMBER


@pytest.mark.parametrize("number", ["--nodes=2", "--nodes 2", "-N2", "-N 2-4"])
def test_the_number_of_nodes_stands_once_in_the_file(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["slurm-script", f"--sbatch={number}", "--nodes", "slurm", "sim.py"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if re.match("#SBATCH (--nodes|-N)", line)] == [f"#SBATCH {number}"]


@pytest.mark.parametrize("words", [["sim.py"], ["sim.py", "--nodes", "slurm"], ["--nodes", "ssh:a,b", "sim.py"]])
def test_any_other_session_is_begun_on_one_node(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["slurm-script", *words]) == 0
    assert "#SBATCH --nodes=1\n" in capsys.readouterr().out


def _status(words: list[str]) -> object:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


def test_a_scripts_own_options_are_not_gmg_tuis(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["slurm-script", "--time", "1:00", "sim.py", "--cpu", "--name", "a"]) == 0
    out = capsys.readouterr().out
    assert "#SBATCH --gpus-per-node=8\n" in out
    assert '--name "$name" sim.py --cpu --name a &' in out
    assert _status(["slurm-script", "--cpu", "2", "sim.py"]) == 0
    assert "--gpus-per-node" not in capsys.readouterr().out
    assert _status(["slurm-script", "--name", "a", "sim.py"]) == 2
    assert "leave out --name" in capsys.readouterr().err
