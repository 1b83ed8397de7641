"""The whole program without a screen: command line, engine and workers as real processes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.model import units
from gmg_tui.model.text import clean
from tests.cli.scripted import COMMAND, WORKER, environ, gmg
from tests.nvml_sim import HANGS, Sim


def _running(*words: str) -> subprocess.Popen[str]:
    """A session without a screen, both of whose workers run."""
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ()
    )
    starting = {"cpu0", "cpu1"}
    while starting:
        line = process.stdout.readline()
        assert line
        if re.match(r"cpu[01]   running", line):
            starting.discard(line[:4])
    return process


def _nothing_is_left(folder: Path) -> None:
    """Neither the engine nor a worker of the session in `folder` lives."""
    entry = sessions.inspect(folder)
    assert entry.state == "ended"
    variable = f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes()
            assert variable not in variables or b"GMG_SESSION=" not in variables, path
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is another user's


def test_a_complete_run_prints_all_but_progress_lines_and_a_summary_that_agrees_with_the_logs(tmp_path: Path) -> None:
    options = ("--cpu", "2", "--summary", str(tmp_path / "out.json"))
    done = gmg(*options, WORKER, "--lines", "300", "--rate", "200", "-B", "16", "--fps", "{seed}000")
    assert (done.stderr, done.returncode) == ("", 0)
    folder = sessions.find("fake_worker-1", running=False).folder
    summary = json.loads((folder / "summary.json").read_text())
    assert json.loads((tmp_path / "out.json").read_text()) == summary
    assert summary["args"] == ["--lines", "300", "--rate", "200", "-B", "16", "--fps", "{seed}000"]
    lasts = []
    for worker in summary["workers"]:
        shown = [clean(line) for line in (folder / worker["log"]).read_bytes().split(b"\n")[:-1]]
        printed = [float(text.replace(",", "")) for text in re.findall(r"Running at ([\d,.]+) FPS", "\n".join(shown))]
        assert worker["state"] == "finished"
        assert worker["n_envs"] == 16
        assert worker["fps"]["last"] == printed[-1]
        assert worker["fps"]["max"] == max(*printed, worker["fps"]["mean"])
        assert worker["fps"]["samples"] == len(printed) == 300
        prefix = f"{worker['slot']} │ "
        assert [line for line in done.stdout.splitlines() if line.startswith(prefix)] == [
            prefix + text for text in shown if "Running at" not in text
        ]
        lasts.append(printed[-1])
    assert lasts[0] != lasts[1]
    assert summary["total_fps"] == sum(lasts)
    total = sum(worker["fps"]["mean"] for worker in summary["workers"])
    assert f"total {units.fps(total)} FPS" in done.stdout
    _nothing_is_left(folder)


def test_a_summary_that_could_not_be_written_is_reported_at_the_end(tmp_path: Path) -> None:
    summary = tmp_path / "gone" / "out.json"
    summary.parent.mkdir()
    script = tmp_path / "remove.py"
    script.write_text(f"import os; os.rmdir({str(summary.parent)!r})")
    done = gmg("--cpu", "1", "--summary", str(summary), str(script))
    assert done.stderr.startswith(f"gmg-tui: --summary {summary} was not written; see ")
    assert (done.stderr.count("\n"), done.returncode) == (1, 0)
    assert str(summary.parent) in Path(done.stderr.split()[-1]).read_text()


def test_a_stale_lock_of_the_kernel_cache_is_removed_before_a_worker_starts(tmp_path: Path) -> None:
    lock = tmp_path / "kernel_compilation_manager" / "qdcache.lock"
    lock.parent.mkdir()
    lock.touch()
    os.utime(lock, (1.0, 1.0))
    env = f"QD_OFFLINE_CACHE_FILE_PATH={tmp_path}"
    assert gmg("--cpu", "1", "--env", env, WORKER, "--lines", "1").returncode == 0
    assert not lock.exists()
    log = sessions.find(None, running=False).folder / "engine.log"
    assert f"removed a stale lock of the kernel cache: {lock}" in log.read_text()


def test_an_interrupt_stops_the_session_cleanly() -> None:
    with _running("--cpu", "2", WORKER, "--lines", "0") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err == "stopping the workers (ctrl+c again kills them)\n"
    assert re.search(r"^cpu0   stopped after ", out, re.MULTILINE)
    folder = sessions.find(None, running=False).folder
    # Genesis saves its kernels on SIGINT, and prints it; anything harsher would have cut that off.
    assert "caching compiled kernels" in (folder / "logs" / "cpu0.log").read_text()
    _nothing_is_left(folder)


def test_a_detached_session_is_listed_its_log_followed_and_stopped() -> None:
    # It takes a while to end: who stops it sees it stopping.
    started = gmg("--cpu", "1", "--name", "far", "--detach", WORKER, "--lines", "0", "--save-s", "1.5")
    assert (started.stdout, started.stderr, started.returncode) == ("far\n", "", 0)
    command = [*COMMAND, "logs", "far", "cpu0", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ()) as log:
        while "Running at" not in log.stdout.readline():
            assert log.poll() is None
        (listed,) = json.loads(gmg("ls", "--json").stdout)
        stopped = gmg("stop")
        assert "caching compiled kernels" in log.stdout.read()
    assert (listed["name"], listed["state"], listed["workers"][0]["slot"]) == ("far", "running", "cpu0")
    assert stopped.returncode == 0
    assert stopped.stderr.startswith("stopping far\n")
    assert stopped.stderr.endswith("far has ended\n")
    _nothing_is_left(sessions.find("far", running=False).folder)


def test_on_gpus_the_table_shows_power(sim: Sim) -> None:
    sim.gpus[1].energy_j = sim.gpus[3].energy_j = None
    sim.write()
    options = ("--gpus", "1,3", "--interval", "0.2")
    done = gmg(*options, WORKER, "--lines", "80", "--rate", "20", "--backend", "cuda", **sim.env())
    assert (done.stderr, done.returncode) == ("", 0)
    table = done.stdout[done.stdout.index("slot ") :].splitlines()
    header, *rows = [[cell.strip() for cell in re.split(r"  +", line)] for line in table[:3]]
    for row, gpu, slot in zip(rows, (sim.gpus[1], sim.gpus[3]), ("gpu1", "gpu3"), strict=True):
        cells = dict(zip(header, row, strict=True))
        assert cells["slot"] == slot
        assert cells["GPU %"] == str(gpu.gpu_util_pct)
        assert cells["W"] == f"{gpu.power_w:.0f}"
    assert re.search(r"FPS/W  time 00:00:\d\d  energy ", table[3])


def test_a_worker_that_waits_for_a_silent_driver_reports_that_and_starts_when_it_answers(sim: Sim) -> None:
    sim.gpus[1].fails = {"nvmlDeviceGetIndex": HANGS}
    sim.write()
    process = subprocess.Popen(
        [*COMMAND, "--headless", "--gpus", "1,", WORKER, "--lines", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ(**sim.env()),
    )
    assert process.stdout is not None
    assert any(line == "gpu1   waiting: for the NVIDIA driver to answer\n" for line in process.stdout)
    sim.gpus[1].fails = {}
    sim.write()
    rest, _ = process.communicate()
    assert "gpu1 │ " in rest
    assert process.returncode == 0


def test_the_environment_of_the_script_is_named_where_it_is_not_that_of_gmg_tui(tmp_path: Path) -> None:
    (tmp_path / "conda" / "bin").mkdir(parents=True)
    python = tmp_path / "conda" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = tmp_path / "sim.py"
    script.write_text("print('\u2502 \u23f1')\nimport no_such_robot\n")
    env = {"CONDA_PREFIX": str(tmp_path / "conda"), "VIRTUAL_ENV": "", "PYTHONIOENCODING": "latin-1"}
    done = gmg("--cpu", "1", "--headless", str(script), **env)
    origin = f"{python} (the active conda environment, CONDA_PREFIX)"
    assert f"the script runs on {origin}; choose another with --python" in done.stderr
    assert "No module named 'no_such_robot'" in done.stdout
    assert f"install it for {origin}" in done.stdout
