"""`doctor` on the simulated driver, and its checks on machines that are made up."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gmg_tui.commands.doctor import (
    filesystem,
    gpus,
    graphics,
    health,
    interpreter,
    line,
    logout,
    outer_task,
    storage,
    terminal,
)
from gmg_tui.commands.doctor.finding import Finding, Verdict
from gmg_tui.commands.doctor.gpus import NvmlView
from gmg_tui.gpu.egl import EglMap
from gmg_tui.gpu.health import judged
from gmg_tui.model import Gpu, GpuHealth
from tests.cli.scripted import environ
from tests.nvml_sim import Sim

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL

_TORCH = """
class cuda:
    is_available = staticmethod(lambda: {cards} > 0)
    device_count = staticmethod(lambda: {cards})
class version:
    cuda = {cuda!r}
"""
_LOCAL = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"


def _nfs(folder: Path) -> str:
    """A line of `/proc/self/mountinfo`, which writes spaces as octal numbers."""
    point = str(folder).replace(" ", "\\040")
    return f"30 22 0:40 / {point} rw - nfs server:/ rw\n"


def card(index: int, name: str = "H100", persistence: bool | None = True) -> Gpu:
    return Gpu(index, f"GPU-{index}", name, persistence=persistence)


@pytest.fixture
def machine(tmp_path: Path, nvml_library: Path, egl_library: Path) -> dict[str, str]:
    """Variables of a machine on which all is well: two cards, EGL, torch, Genesis, and a temporary folder for caches."""
    sim = Sim(tmp_path / "sim", nvml_library, count=2, egl=egl_library)
    _install(tmp_path / "packages" / "genesis", "raise SystemExit('imported')")
    _install(tmp_path / "packages" / "torch", _TORCH.format(cards=2, cuda="12.8"))
    return sim.env() | {
        "GMG_EGL_SIM": "software,1,0",
        "PYTHONPATH": f"{environ()['PYTHONPATH']}{os.pathsep}{tmp_path / 'packages'}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def _install(package: Path, text: str) -> None:
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(text)


def _doctor(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ(**variables))


def _findings(**variables: str) -> tuple[dict[str, dict[str, Any]], int]:
    done = _doctor("--json", **variables)
    return {one["check"]: one for one in json.loads(done.stdout)}, done.returncode


def _verdict(finding: Finding, *words: str) -> Verdict:
    said = f"{finding.found}; {finding.advice}"
    assert [word for word in words if word not in said] == [], said
    return finding.verdict


def test_a_machine_that_lacks_nothing_passes_in_one_line_for_each_check(machine: dict[str, str]) -> None:
    done = _doctor(**machine)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[6:19].strip(): line for line in done.stdout.splitlines()}
    assert not any(line.startswith("FAIL") for line in lines.values())
    assert lines["GPUs"].startswith("ok    GPUs           2 x NVIDIA H100")
    assert "on for 2 GPUs" in lines["persistence"]
    assert "gpu0, gpu1; CUDA_VISIBLE_DEVICES is not set" in lines["visible GPUs"]
    assert "built for CUDA 12.8, sees 2 GPUs" in lines["torch"]
    assert "gpu0 is EGL device 2, gpu1 is EGL device 1" in lines["EGL"]
    assert machine["XDG_CACHE_HOME"] in lines["kernel cache"]
    assert {"driver", "python", "mesh cache", "sessions", "socket", "terminal", "logout"} <= lines.keys()


def test_what_stops_a_plain_run_fails_and_is_status_1(machine: dict[str, str], tmp_path: Path) -> None:
    _install(tmp_path / "packages" / "torch", _TORCH.format(cards=0, cuda=None))
    found, status = _findings(**machine, CUDA_VISIBLE_DEVICES="7")
    assert {name for name, one in found.items() if one["verdict"] == "FAIL"} == {"torch", "visible GPUs"}
    assert "built without CUDA" in found["torch"]["found"]
    assert status == 1
    found, status = _findings(**machine | {"GMG_EGL_SIM": "crash", "LD_LIBRARY_PATH": ""})
    assert found["driver"]["verdict"] == "FAIL"
    assert "--cpu" in found["driver"]["advice"]
    assert "GPUs" not in found
    assert status == 1


def test_what_workers_do_not_get_of_an_outer_task_is_said() -> None:
    assert outer_task.variables({"HOME": "/h"}).found == "no job"
    assert outer_task.variables({"SLURM_JOB_ID": "77"}).found == "in job 77"
    step = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0", "PMI_RANK": "0"}
    said = ("in job 77", "4 variables of the outer task (PMI_RANK, SLURM_NTASKS, SLURM_PROCID, …)", "--keep-slurm-env")
    assert _verdict(outer_task.variables(step), *said) is OK
    assert _verdict(outer_task.variables({"OMPI_COMM_WORLD_RANK": "0"}), "no job", "(OMPI_COMM_WORLD_RANK)") is OK


def test_an_interpreter_that_is_none_is_wrong_usage() -> None:
    done = _doctor("--python", "absent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gmg-tui: --python absent")


def test_what_takes_its_time_is_shown_on_a_terminal_and_wiped_off(machine: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gmg_tui", "doctor"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environ(**machine))
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "importing torch, which takes seconds\r\x1b[K" in said
    assert said.endswith("\r\x1b[K")


def test_a_long_finding_goes_on_below_its_beginning_on_a_terminal_alone() -> None:
    long = Finding("cache", WARN, "a " * 40 + "/path/that-is-not/broken", "do this")
    first, *rest = line(long, 60).splitlines()
    assert first.startswith("warn  cache          a a")
    assert max(map(len, (first, *rest))) <= 60
    assert {line[:21].strip() for line in rest} == {""}
    assert line(long, None).split() == line(long, 60).split()
    assert "\n" not in line(long, None)


def test_cards_that_are_asleep_silent_or_hidden_are_named() -> None:
    two = NvmlView((card(0), card(1, persistence=False)), driver="570")
    assert _verdict(gpus.persistence(two), "off on gpu1", "nvidia-smi -pm 1") is WARN
    assert _verdict(gpus.persistence(NvmlView((card(0, persistence=None),))), "gpu0 do not report it") is OK
    assert _verdict(gpus.listed(NvmlView((card(0),), ((1, "the card is lost"),))), "GPU 1: the card is lost") is WARN
    assert _verdict(gpus.listed(NvmlView((), ((0, "no permission"),))), "GPU 0: no permission") is FAIL
    assert _verdict(gpus.listed(NvmlView())) is FAIL
    assert _verdict(gpus.visible(two, {"CUDA_VISIBLE_DEVICES": "1"}), "gpu1, as") is OK
    mixed = NvmlView((card(0), card(1, "A100")))
    counted = {"CUDA_VISIBLE_DEVICES": "1"}
    assert _verdict(gpus.visible(mixed, counted), "CUDA_DEVICE_ORDER=PCI_BUS_ID") is WARN
    assert _verdict(gpus.visible(mixed, counted | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) is OK
    assert _verdict(gpus.visible(mixed, {"CUDA_VISIBLE_DEVICES": "GPU-1"})) is OK


def test_an_interpreter_says_what_it_has_or_why_not(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\necho wrong >&2; exit 3\n")
    silent.chmod(0o755)
    assert interpreter.ask_versions(str(silent), os.environ) == "wrong"
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    found = interpreter.installed(str(bare), interpreter.ask_versions(str(bare), {}))
    assert _verdict(found, "without genesis and torch", "pip install") is FAIL
    one = NvmlView((card(0),))
    assert _verdict(interpreter.torch("no such file", one), "no such file") is FAIL
    assert _verdict(interpreter.torch(interpreter.Seen(0, "13.0"), one), "sees none of 1 GPU", "13.0") is FAIL
    assert _verdict(interpreter.torch(interpreter.Seen(0, None), NvmlView())) is OK
    two = NvmlView((card(0), card(1)))
    assert _verdict(interpreter.torch(interpreter.Seen(1, "13.0"), two), "sees 1 of 2 GPUs") is WARN


def test_cards_without_an_egl_device_are_named() -> None:
    assert _verdict(graphics.mapping(EglMap(error="no libEGL"), NvmlView()), "no libEGL", "libEGL") is WARN
    assert _verdict(graphics.mapping(EglMap(), NvmlView((card(0),))), "is gpu0") is WARN


def test_network_disks_are_told_from_those_of_this_machine() -> None:
    mounts = (
        _LOCAL + "30 22 0:40 / /tmp rw - nfs4 server:/tmp rw\n31 30 8:2 / /tmp/a\\040b rw - ext4 /dev/sdb rw\n"
        "32 22 0:41 / /usr rw master:1 propagate_from:2 - fuse.sshfs host:/usr rw\n"
        "33 22 0:42 / /var rw - lustre mgs:/fs rw\n34 33 8:3 / /var rw - xfs /dev/sdc rw\n"
    )
    kinds = {path: filesystem.network(Path(path), mounts) for path in ("/tmp/x/y", "/usr", "/var/x", "/", "/tmpx")}
    assert kinds == {"/tmp/x/y": "nfs4", "/usr": "fuse.sshfs", "/var/x": None, "/": None, "/tmpx": None}


def test_a_cache_is_judged_by_where_it_is_and_what_is_in_it(tmp_path: Path) -> None:
    own = {"GS_CACHE_FILE_PATH": str(tmp_path / "gs"), "QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "qd")}
    assert _verdict(storage.cache("mesh cache", own, _LOCAL), "cold") is OK
    (tmp_path / "gs" / "gsd").mkdir(parents=True)
    (tmp_path / "gs" / "gsd" / "x.gsd").write_bytes(bytes(3 << 20))
    assert _verdict(storage.cache("mesh cache", own, _LOCAL), "3 MiB") is OK
    on_nfs = _nfs(tmp_path)
    assert _verdict(storage.cache("kernel cache", own, on_nfs), "(nfs)", "QD_OFFLINE_CACHE_FILE_PATH") is WARN
    (tmp_path / "file").touch()
    blocked = {"QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "file" / "qd")}
    assert _verdict(storage.cache("kernel cache", blocked, _LOCAL), "cannot be written") is FAIL
    lock = tmp_path / "qd" / "qdcache.lock"
    lock.parent.mkdir()
    lock.touch()
    assert _verdict(storage.stale_locks(own)) is OK
    os.utime(lock, (1.0, 1.0))
    assert _verdict(storage.stale_locks(own), str(lock)) is WARN


def test_the_folder_for_sessions_must_have_room_and_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, low = storage._FULL_MIB, storage._LOW_MIB
    for free_mib, verdict in ((full - 1, FAIL), (full, WARN), (low - 1, WARN), (low, OK)):
        usage = SimpleNamespace(free=free_mib << 20)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        assert _verdict(storage.sessions_folder(_LOCAL), "free") is verdict
    on_nfs = _nfs(tmp_path)
    assert _verdict(storage.sessions_folder(on_nfs), "(nfs)", "XDG_STATE_HOME") is WARN
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert _verdict(storage.sessions_folder(_LOCAL), "XDG_STATE_HOME") is FAIL


def test_the_terminal_is_judged_by_what_it_says_of_itself(tmp_path: Path) -> None:
    size = os.terminal_size
    xterm = {"TERM": "xterm-256color"}
    assert _verdict(terminal.screen(xterm, size((80, 24))), "80 by 24") is OK
    assert _verdict(terminal.screen(xterm, size((19, 24))), "19 by 24") is WARN
    assert _verdict(terminal.screen({"TERM": "dumb"}, size((80, 24))), "--headless") is WARN
    assert _verdict(terminal.screen(xterm, None), "--headless") is OK
    assert _verdict(terminal.colours(xterm), "256") is OK
    assert _verdict(terminal.colours({"TERM": "linux"}), "--theme ansi") is WARN
    assert _verdict(terminal.colours({"COLORTERM": "truecolor"}), "16 million") is OK
    assert _verdict(terminal.colours({"NO_COLOR": "1", "TERM": "linux"}), "NO_COLOR") is OK
    assert _verdict(terminal.encoding({"LC_ALL": "C", "LANG": "C.UTF-8"}), "--ascii") is WARN
    assert _verdict(terminal.encoding({"LANG": "de_DE.utf8"})) is OK
    assert _verdict(terminal.encoding({}), "C.UTF-8") is WARN
    tmux = {"TMUX": "/tmp/tmux-0/default,1,0", "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.4"}
    assert _verdict(terminal.multiplexer(tmux), "tmux 3.4") is WARN
    (tmp_path / "tmux").write_text("#!/bin/sh\necho tmux next-3.6\n")
    (tmp_path / "tmux").chmod(0o755)
    assert _verdict(terminal.multiplexer({"TMUX": "x", "PATH": str(tmp_path)}), "next-3.6") is OK
    assert _verdict(terminal.multiplexer({"STY": "1.pts"}), "screen") is WARN
    assert _verdict(terminal.ssh({"SSH_CONNECTION": "a b"}), "yes", "COLORTERM") is OK
    assert _verdict(terminal.ssh({}), "no") is OK


_SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
_MANAGER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n"


@pytest.mark.parametrize(
    ("conf", "group", "lingers", "verdict", "advice"),
    [
        ("[Login]\n#KillUserProcesses=no\n", _SESSION, False, OK, ""),
        ("[Login]\n#KillUserProcesses=yes\n", _SESSION, False, WARN, "loginctl enable-linger, once"),
        ("[Login]\nKillUserProcesses = yes\n", _SESSION, True, WARN, "systemd-run --user --scope"),
        ("[Login]\nKillUserProcesses=yes\nKillExcludeUsers=root me\n", _SESSION, False, OK, ""),
        ("[Login]\nKillUserProcesses=yes\nKillOnlyUsers=you\n", _SESSION, False, OK, ""),
        ("", _MANAGER, False, WARN, "loginctl enable-linger"),
        ("[Login]\nKillUserProcesses=yes\n", _MANAGER, True, OK, ""),
        ("[Login]\nKillUserProcesses=yes\n", "0::/system.slice/x.service\n", False, OK, ""),
    ],
)
def test_a_logout_ends_sessions_or_does_not(
    tmp_path: Path, conf: str, group: str, lingers: bool, verdict: Verdict, advice: str
) -> None:
    _write(tmp_path / "run/systemd/system/x", "")
    _write(tmp_path / "etc/systemd/logind.conf", conf)
    _write(tmp_path / "proc/self/cgroup", group)
    if lingers:
        _write(tmp_path / "var/lib/systemd/linger/me", "")
    assert _verdict(logout.policy("me", 1000, tmp_path), advice) is verdict


def test_a_later_file_of_logind_overrules_an_earlier_one(tmp_path: Path) -> None:
    _write(tmp_path / "run/systemd/system/x", "")
    _write(tmp_path / "proc/self/cgroup", _SESSION)
    _write(tmp_path / "usr/lib/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    _write(tmp_path / "usr/lib/systemd/logind.conf.d/50-x.conf", "[Login]\nKillUserProcesses=yes\n")
    assert _verdict(logout.policy("me", 1000, tmp_path)) is WARN
    _write(tmp_path / "etc/systemd/logind.conf.d/50-x.conf", "[Login]\nKillUserProcesses=no\n")
    assert _verdict(logout.policy("me", 1000, tmp_path)) is OK


def test_without_systemd_nothing_ends_sessions(tmp_path: Path) -> None:
    assert _verdict(logout.policy("me", 1000, tmp_path)) is OK


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _sick(uncorrected: int, lanes: int) -> Finding:
    troubled = judged(GpuHealth(ecc_uncorrected=uncorrected, pcie_width=lanes, pcie_width_max=16))
    good = GpuHealth(ecc_corrected=0, ecc_uncorrected=0)
    return health.gpus(NvmlView((card(0), card(1)), health=((card(0), good), (card(1), troubled))))


def test_the_health_of_gpus_is_judged_by_the_worst() -> None:
    assert _verdict(_sick(0, 16), "no uncorrected ECC error on 2 GPUs") is OK
    assert _verdict(_sick(0, 8), "gpu1: PCIe has 8 of 16 lanes", "riser") is WARN
    said = ("gpu1: 3 ECC errors, uncorrected", "nvidia-smi --gpu-reset")
    assert _verdict(_sick(3, 8), *said) is FAIL
    assert _verdict(health.gpus(NvmlView((card(0),))), "no GPU reports ECC errors") is OK


def test_an_ecc_error_in_the_driver_is_told(machine: dict[str, str], tmp_path: Path, nvml_library: Path) -> None:
    sim = Sim(tmp_path / "sim", nvml_library, count=2)
    sim.gpus[1].ecc_uncorrected = 1
    sim.write()
    found, status = _findings(**machine)
    assert (found["GPU health"]["verdict"], status) == ("FAIL", 1)
    assert found["GPU health"]["found"].startswith("gpu1: 1 ECC error, uncorrected")
    assert found["driver"]["found"] == "NVIDIA 570.86.15 with CUDA 12.8, NVML answers"


def test_mps_is_told_where_it_runs(tmp_path: Path) -> None:
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert health.mps(environment) is None
    (tmp_path / "control").touch()
    found = health.mps(environment)
    assert found is not None
    assert _verdict(found, str(tmp_path), "nvidia-cuda-mps-control") is WARN
