"""GPUs and CPUs shared with others: `--gpus free`, `--wait`, who uses what, and the cores near a GPU."""

import json
import os
import re
import signal
import subprocess
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import COMMAND, WORKER, environ, gmg
from tests.nvml_sim import Process, Sim
from tests.patience import LONG_S, wait_until

_RUN = (WORKER, "--lines", "3", "--backend", "cuda")


@pytest.fixture(autouse=True)
def machine(sim: Sim) -> None:
    """Four GPUs; this process is on the first two, with 31 GiB and, idle, with 642 MiB."""
    sim.gpus = sim.gpus[:4]
    for gpu, memory_mib in zip(sim.gpus, (31744, 642, 4, 4), strict=True):
        gpu.processes, gpu.memory_used_mib = [Process(os.getpid(), memory_mib)] if memory_mib > 4 else [], memory_mib
    sim.write()


def _slots(stdout: str) -> set[str]:
    return {*re.findall(r"^(gpu\d) ", stdout, re.MULTILINE)}


def test_only_gpus_that_nobody_uses_are_taken(sim: Sim) -> None:
    done = gmg("--headless", "--gpus", "free", *_RUN, **sim.env())
    assert (done.stderr, done.returncode, _slots(done.stdout)) == ("", 0, {"gpu2", "gpu3"})


def test_without_enough_the_error_lists_their_users(sim: Sim) -> None:
    done = gmg("--headless", "--gpus", "free:3", *_RUN, **sim.env())
    head, *users = done.stderr.splitlines()
    assert (head, done.returncode) == ("gmg-tui: --gpus free:3: 2 of 4 GPUs are free; --wait waits for them", 1)
    user = re.escape(psutil.Process().username())
    assert [re.fullmatch(rf"  gpu\d: {user}, .+, (.+ [MG]iB), since .+", line) is not None for line in users] == [
        True
    ] * 2
    assert not list(sessions.sessions_folder().iterdir())


def _waiting(sim: Sim, *options: str) -> subprocess.Popen[str]:
    """Start a run that waits for three GPUs, and read up to the last line on what it waits for."""
    command = [*COMMAND, "--headless", "--gpus", "free:3", "--wait", *options, *_RUN]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environ(**sim.env()), **pipes)  # type: ignore[call-overload]
    assert process.stderr.readline() == "gmg-tui: 2 of 3 GPUs are free; waiting (ctrl+c cancels)\n"
    for slot in ("gpu0", "gpu1"):
        assert process.stderr.readline().startswith(f"gmg-tui: {slot}: ")
    return process  # type: ignore[no-any-return]


def test_a_run_that_waits_begins_when_a_gpu_becomes_free(sim: Sim) -> None:
    process = _waiting(sim, "2h")
    other = gmg("--headless", "--gpus", "free", *_RUN, **sim.env())
    assert other.returncode == 1
    assert "gpu2: " in other.stderr, "it is taken already"
    assert "a session of gmg-tui" in other.stderr
    sim.gpus[0].processes, sim.gpus[0].memory_used_mib = [], 4
    sim.write()
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    assert _slots(stdout) == {"gpu0", "gpu2", "gpu3"}


def test_gpus_lists_users_with_command_memory_start_and_session(sim: Sim) -> None:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "GMG_SESSION": "sim-7"}) as sleeping:
        sim.gpus[3].processes, sim.gpus[3].gpu_util_pct = [Process(sleeping.pid, 31744)], 0
        sim.write()
        lines = gmg("gpus", **sim.env()).stdout.splitlines()[-3:]
        (process,) = json.loads(gmg("gpus", "--json", **sim.env()).stdout)[3]["processes"]
        sleeping.kill()
    here = psutil.Process()
    clock = r"\d\d:\d\d"
    assert lines[0].startswith(f"gpu0: {here.username()}, ")
    assert re.fullmatch(
        rf"gpu3: {here.username()}, sleep 600, 31.0 GiB, since {clock}, session sim-7, idle now", lines[2]
    )
    assert (process["user"], process["session"], process["memory_mib"]) == (here.username(), "sim-7", 31744)
    assert abs(datetime.fromisoformat(process["started"]).timestamp() - time.time()) < 600


def test_a_plain_run_on_a_gpu_in_use_says_so(sim: Sim) -> None:
    done = gmg("--headless", "--gpus", "0,", "--interval", "0.2", WORKER, "--lines", "120", "--rate", "10", **sim.env())
    user = psutil.Process().username()
    assert re.search(rf"^gpu0 .*gpu0 is also used by {user}: 31.0 GiB", done.stdout, re.MULTILINE), done.stdout
    assert done.returncode == 0


def test_a_sweep_whose_file_wants_free_gpus_waits_for_them(sim: Sim, tmp_path: Path) -> None:
    (file := tmp_path / "sweep.toml").write_text(
        f"script = {WORKER!r}\nargs = ['--lines', '3']\ngpus = 'free:1'\n[grid]\nx = [1, 2]\n"
    )
    done = gmg("sweep", "--headless", "--wait", str(file), **sim.env())
    assert (done.returncode, _slots(done.stdout)) == (0, {"gpu2"})
    done = gmg("sweep", "--headless", "--wait", "--gpus", "1,", str(file), **sim.env())
    assert done.stderr == "gmg-tui: --wait is for GPUs that are in use; give --gpus free or free:4 too\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_wait_can_be_cancelled_and_leaves_nothing(number: signal.Signals, sim: Sim, nothing_is_left: None) -> None:
    process = _waiting(sim)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    wait_until(lambda: not list(sessions.sessions_folder().iterdir()))
    assert gmg("--headless", "--gpus", "free:2", *_RUN, **sim.env()).returncode == 0


_two_cpus = pytest.mark.skipif(
    os.getuid() != 0 or len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, and root to mount"
)


_CPUS = """
import os, time
end = time.monotonic() + {wait_s}
while len(os.sched_getaffinity(0)) > 1 and time.monotonic() < end:  # it is pinned right after its start
    time.sleep(0.01)
print("cpus", *os.sched_getaffinity(0), "threads", os.environ["OMP_NUM_THREADS"])
"""


def _on_two_nodes(sim: Sim, folder: Path, *words: str) -> dict[str, tuple[str, ...]]:
    """Run a script where two GPUs have a NUMA node with one CPU each: the CPUs and threads of each worker."""
    usable = sorted(os.sched_getaffinity(0))[:2]
    (script := folder / "cpus.py").write_text(_CPUS.format(wait_s=0 if words else LONG_S))
    for gpu, node, cpu in zip(sim.gpus[2:], "01", usable, strict=True):
        gpu.pci_bus_id = f"00000000:0{node}:00.0"
        (device := folder / f"devices/0000:0{node}:00.0").mkdir(parents=True)
        (device / "numa_node").write_text(node)
        (cpus := folder / f"nodes/node{node}").mkdir(parents=True)
        (cpus / "cpulist").write_text(str(cpu))
    sim.write()
    mounts = "mount --bind $0/devices /sys/bus/pci/devices && mount --bind $0/nodes /sys/devices/system/node"
    command = ["unshare", "--mount", "sh", "-c", f'{mounts} || exit 77; exec "$@"', str(folder), *COMMAND]
    command += ["--headless", "--gpus", "2,3", *words, str(script)]
    done = subprocess.run(command, env=environ(**sim.env()), capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    seen = re.findall(r"^(gpu\d) │ cpus (.+) threads (\d+)$", done.stdout, re.MULTILINE)
    assert len(seen) == 2, done.stdout + done.stderr
    return {slot: (cpus, threads) for slot, cpus, threads in seen}


@_two_cpus
def test_a_worker_is_kept_on_the_cores_near_its_gpu(sim: Sim, tmp_path: Path) -> None:
    first, second, *_ = sorted(os.sched_getaffinity(0))
    assert _on_two_nodes(sim, tmp_path) == {"gpu2": (f"{first}", "1"), "gpu3": (f"{second}", "1")}


@_two_cpus
@pytest.mark.parametrize("words", ["--no-pin", "--env OMP_PLACES=cores"])
def test_pinning_is_switched_off(words: str, sim: Sim, tmp_path: Path) -> None:
    usable = " ".join(map(str, os.sched_getaffinity(0)))
    assert [cpus for cpus, _ in _on_two_nodes(sim, tmp_path, *words.split()).values()] == [usable] * 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--wait", "--wait is for GPUs that are in use; give --gpus free or free:4 too"),
        ("--gpus free --wait 30", "--wait 30: give a time with a unit, such as 90s, 15m, 1h30m or 30d"),
        ("--gpus free --wait --nodes ssh:a", "--wait waits only for GPUs on this machine; leave out --wait or --nodes"),
        ("--gpus free:9", "--gpus free:9: there are 4 GPUs; ask for at most 4, or use --cpu N"),
        ("--gpus free:", "--gpus free:: no GPU matches free:; the GPUs are 0, 1, 2, 3 (`gmg-tui gpus` shows them)"),
        ("--gpus free --wait 1s --free-mib 3", "--gpus free: none of 4 GPUs are free after 1 s"),
    ],
)
def test_wrong_usage(words: str, error: str, sim: Sim) -> None:
    done = gmg("--headless", *words.split(), *_RUN, **sim.env())
    assert error in done.stderr.splitlines()[-5 if "free-mib" in words else -1], done.stderr
    assert done.returncode in (1, 2)
