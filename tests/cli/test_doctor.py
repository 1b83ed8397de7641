"""`doctor` on the simulated driver, and its checks on machines that are made up."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gmg_tui.cli import doctor
from gmg_tui.cli.doctor import FAIL, OK, WARN, Finding, NvmlView, PackageVersions
from gmg_tui.machine.gpu.egl import EglMap
from gmg_tui.model import Gpu
from gmg_tui.scripts.genesis import caches
from tests.cli.scripted import environ, gmg
from tests.nvml_sim import Sim

_TORCH = """
class cuda:
    is_available = staticmethod(lambda: {gpus} > 0)
    device_count = staticmethod(lambda: {gpus})
class version:
    cuda = {cuda!r}
"""


def _gpu(index: int, name: str = "H100") -> Gpu:
    return Gpu(index, f"GPU-{index}", name)


@pytest.fixture
def machine(tmp_path: Path, nvml_library: Path, egl_library: Path) -> dict[str, str]:
    """Variables of a machine on which all is well: two GPUs, EGL, torch, Genesis, and a temporary folder for caches."""
    sim = Sim(tmp_path / "sim", nvml_library, count=2, egl=egl_library)
    _install(tmp_path / "packages" / "genesis", "raise SystemExit('imported')")
    _install(tmp_path / "packages" / "torch", _TORCH.format(gpus=2, cuda="12.8"))
    return sim.env() | {
        "GMG_EGL_SIM": "software,1,0",
        "PYTHONPATH": f"{environ()['PYTHONPATH']}{os.pathsep}{tmp_path / 'packages'}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def _install(package: Path, text: str) -> None:
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(text)


def _doctor(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return gmg("doctor", *words, **variables)


def _findings(**variables: str) -> tuple[dict[str, dict[str, Any]], int]:
    done = _doctor("--json", **variables)
    return {finding["check"]: finding for finding in json.loads(done.stdout)}, done.returncode


def test_a_machine_that_lacks_nothing_passes_in_one_line_for_each_check(machine: dict[str, str]) -> None:
    done = _doctor(**machine)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[6:19].strip(): line for line in done.stdout.splitlines()}
    assert not any(line.startswith("FAIL") for line in lines.values())
    assert lines["GPUs"].startswith("ok    GPUs          2 x NVIDIA H100")
    assert "gpu0, gpu1; CUDA_VISIBLE_DEVICES is not set" in lines["visible GPUs"]
    assert "built for CUDA 12.8, sees 2 GPUs" in lines["torch"]
    assert "gpu0 is EGL device 2, gpu1 is EGL device 1" in lines["EGL"]
    assert machine["XDG_CACHE_HOME"] in lines["kernel cache"]
    assert {"driver", "python", "mesh cache", "sessions"} <= lines.keys()


def test_a_problem_that_prevents_a_plain_run_gives_status_1(machine: dict[str, str], tmp_path: Path) -> None:
    _install(tmp_path / "packages" / "torch", _TORCH.format(gpus=0, cuda=None))
    findings, status = _findings(**machine, CUDA_VISIBLE_DEVICES="7")
    assert {name for name, finding in findings.items() if finding["verdict"] == "FAIL"} == {"torch", "visible GPUs"}
    assert "built without CUDA" in findings["torch"]["result"]
    assert status == 1
    findings, status = _findings(**machine | {"GMG_EGL_SIM": "crash", "LD_LIBRARY_PATH": ""})
    assert findings["driver"]["verdict"] == "FAIL"
    assert "--cpu" in findings["driver"]["advice"]
    assert ("GPUs" not in findings, status) == (True, 1)


@pytest.mark.process
def test_an_interpreter_that_fails_is_reported(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\necho wrong >&2; exit 3\n")
    silent.chmod(0o755)
    assert doctor.read_packages(str(silent), os.environ) == "wrong"
    done = _doctor("--python", "absent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gmg-tui: --python absent")


def test_the_interpreter_of_the_settings_is_the_one_that_is_checked(machine: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "config" / "gmg-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    machine["XDG_CONFIG_HOME"] = str(config.parents[1])
    link = tmp_path / "linked"
    link.symlink_to(sys.executable)
    config.write_text(f'python = "{link}"\n')
    findings, _ = _findings(**machine)
    assert findings["settings"]["result"] == str(config)
    assert findings["python"]["result"].startswith(f"{link} (python in {config}), Python 3")
    config.write_text('python = "absent"\n')
    findings, status = _findings(**machine)
    assert findings["python"]["result"].startswith(
        f"absent (python in {config}): --python absent: not an executable program"
    )
    assert status == 1
    config.write_text("pithon = 1\n")
    findings, status = _findings(**machine)
    assert (findings["settings"]["verdict"], status) == ("FAIL", 1)


_ONE, _TWO = NvmlView((_gpu(0),)), NvmlView((_gpu(0), _gpu(1)), driver="570")


@pytest.mark.parametrize(
    ("finding", "verdict", "words"),
    [
        (
            doctor.check_gpus(NvmlView((_gpu(0), Gpu(1, "", "", trouble="the card is lost")))),
            WARN,
            "GPU 1 does not answer (the card is lost)",
        ),
        (
            doctor.check_gpus(NvmlView((Gpu(0, "", "", trouble="no permission"),))),
            FAIL,
            "GPU 0 does not answer (no permission)",
        ),
        (doctor.check_gpus(NvmlView()), FAIL, "NVML reports none"),
        (doctor.check_visible_gpus(_TWO, {"CUDA_VISIBLE_DEVICES": "1"}), OK, "gpu1; CUDA_VISIBLE_DEVICES=1"),
        (doctor.check_packages("py", PackageVersions("3.12")), FAIL, "without genesis and torch"),
        (doctor.check_packages("py", "wrong"), FAIL, "py: wrong"),
        (doctor.check_torch(PackageVersions("3.12", error="no such file"), _ONE), FAIL, "no such file"),
        (doctor.check_torch(PackageVersions("3.12", cuda="13.0"), _ONE), FAIL, "sees none of 1 GPU"),
        (doctor.check_torch(PackageVersions("3.12"), NvmlView()), OK, "built without CUDA"),
        (doctor.check_torch(PackageVersions("3.12", cuda="13.0", gpus=1), _TWO), WARN, "sees 1 of 2 GPUs"),
        (doctor.check_egl(EglMap(error="no libEGL"), NvmlView()), WARN, "no libEGL"),
        (doctor.check_egl(EglMap(), _ONE), WARN, "matches gpu0"),
    ],
)
def test_missing_parts_of_a_machine_are_reported(finding: Finding, verdict: str, words: str) -> None:
    assert finding.verdict == verdict
    assert words in finding.result


def test_network_disks_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [
        SimpleNamespace(mountpoint=point, fstype=kind)
        for point, kind in (("/", "ext4"), ("/tmp", "nfs4"), ("/usr", "fuse.sshfs"), ("/usr", "xfs"))
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)  # noqa: A006
    kinds = {path: doctor.network_file_system(Path(path)) for path in ("/tmp/x/y", "/usr", "/tmpx", "/")}
    assert kinds == {"/tmp/x/y": "nfs4", "/usr": None, "/tmpx": None, "/": None}


def test_folders_are_checked_for_their_file_system_and_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert doctor.check_folder("mesh cache", tmp_path / "cache", "X") == Finding(
        "mesh cache", OK, f"{tmp_path}/cache, cold"
    )
    monkeypatch.chdir(tmp_path)
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(0o777)
    theirs = doctor.check_folder("mesh cache", shared, "X")
    assert (theirs.verdict, theirs.advice) == (doctor.WARN, "set X to a folder that is yours alone")
    assert theirs.result == f"{shared}: {shared} can be changed by all users"
    relative = doctor.check_folder("mesh cache", caches.mesh_cache({"HOME": "home"}), "X")
    assert (relative.verdict, relative.result) == (WARN, f"{tmp_path}/home/.cache/genesis, cold")
    denied = doctor.check_folder("mesh cache", tmp_path / "file" / "x", "X")
    assert (denied.verdict, denied.advice) == (FAIL, "set X to a writable folder")
    verdicts = {}
    for free_mib in (1, 100, 1 << 20):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free_mib << 20: SimpleNamespace(free=free))
        verdicts[free_mib] = doctor.check_sessions_folder().verdict
    assert verdicts == {1: FAIL, 100: WARN, 1 << 20: OK}


@pytest.mark.parametrize(
    ("genesis", "given", "verdict", "words"),
    [
        ("0.4.5", {}, WARN, ("90 MiB of at most 100 MiB", "QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES=2147483647")),
        ("1.4.4", {"QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES": "943718400"}, OK, ("90 MiB of at most 900 MiB", "raises")),
        ("1.4.5", {}, OK, ("90 MiB of at most 2.0 GiB",)),
        (None, {}, OK, ("90 MiB",)),
    ],
)
def test_the_kernel_cache_is_weighed_against_its_limit(
    tmp_path: Path, genesis: str | None, given: dict[str, str], verdict: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "kernel_compilation_manager").mkdir()
    with (tmp_path / "kernel_compilation_manager" / "a.qdc").open("wb") as file:
        file.truncate(90 << 20)
    found = doctor.check_kernel_cache({"QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path), **given}, genesis)
    assert found.verdict == verdict
    assert all(word in f"{found.result}; {found.advice}" for word in words)
    assert ("evicts" in (found.advice or "")) == (genesis not in ("1.4.5", None))


def test_missing_pidfds_and_a_containers_quota_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_signals().verdict == OK
    monkeypatch.delattr(os, "pidfd_open")
    assert doctor.check_signals() == Finding(
        "signals",
        WARN,
        "processes are signalled by PID, after comparing their start times: this Python was built without pidfd_open",
    )
    monkeypatch.setattr(doctor, "usable_cpus", lambda: 1)
    monkeypatch.setattr(doctor, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert doctor.check_cpus().result == "1 for the workers; the container's quota is 1.5 of 64"
