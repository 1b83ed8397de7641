"""The history of a script's starts: phase times, warm caches, and stale locks."""

import os
import time
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import Phase, RunSpec, StartMode
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.genesis.caches import MAX_FILES, PHASE_TIMES, ScriptTimes, key_of, may_use_genesis


def _times(
    folder: Path, *args: str, script: str = "sim.py", on_gpu: bool = True, genesis: str = "1.4.5"
) -> ScriptTimes:
    """Returns the history of a script that imports Genesis, with its caches in `folder`."""
    (folder / f"{genesis}/lib/python3.12/site-packages/genesis_world-{genesis}.dist-info").mkdir(
        parents=True, exist_ok=True
    )
    (folder / script).write_text("import genesis")
    spec = RunSpec("sim", str(folder), "", script, args, str(folder), f"{folder}/{genesis}/bin/python")
    spec = structs.replace(spec, env={"XDG_CACHE_HOME": str(folder)})
    return ScriptTimes(spec, folder, on_gpu=on_gpu)


def _record(folder: Path, script: str, seconds: float, *, warm: bool = False) -> None:
    times = _times(folder, script=script)
    times.history(()).record({Phase.COMPILING: seconds, Phase.RUNNING: 3600.0}, warm=warm)
    times.save()


def _usual(folder: Path, script: str, *, warm: bool = False, on_gpu: bool = True) -> float | None:
    return _times(folder, script=script, on_gpu=on_gpu).history(()).usual(Phase.COMPILING, warm=warm)


def test_times_of_the_last_start_are_the_estimate_for_the_next(tmp_path: Path) -> None:
    assert _usual(tmp_path, "a.py") is None
    for seconds, warm in ((1000.0, False), (83.0, False), (3.0, True)):
        _record(tmp_path, "a.py", seconds, warm=warm)
    assert [_usual(tmp_path, "a.py", warm=warm) for warm in (False, True)] == [83.0, 3.0]
    assert _usual(tmp_path, "a.py", on_gpu=False) is None
    assert _times(tmp_path, script="a.py").history(()).usual(Phase.RUNNING, warm=False) is None


def test_caches_are_warm_until_genesis_changes_or_they_are_removed(tmp_path: Path) -> None:
    cache = tmp_path / "quadrants/qdcache/kernels"
    cache.mkdir(parents=True)
    times = _times(tmp_path)
    times.history(()).meshes_written = times.history(()).kernels_saved = True
    times.history(()).record({Phase.BUILDING: 1.0}, warm=False)
    times.save()
    for genesis, caches_exist, warm, usual in (
        ("1.4.5", True, True, 1.0),
        ("1.5.0", True, False, None),
        ("1.4.5", False, False, 1.0),
    ):
        if not caches_exist:
            cache.rmdir()
        again = _times(tmp_path, genesis=genesis).history(())
        assert (again.meshes_written, again.kernels_saved) == (warm, warm)
        assert again.usual(Phase.BUILDING, warm=False) == usual


@pytest.mark.parametrize(
    ("left", "other", "same"),
    [
        (["-B", "4096"], ["-B", "65_536"], True),
        (["--lr=1e-3", "--seed", "{i}"], ["--lr=0.5", "--seed", "{i}"], True),
        (["--robot", "go2"], ["--robot", "go1"], False),
        (["--fast"], [], False),
        (["--seed", "1"], ["--seed", "2"], False),
        (["env.seed=1"], ["env.seed=2"], False),
    ],
)
def test_runs_are_distinguished_by_arguments_without_numbers(left: list[str], other: list[str], same: bool) -> None:
    assert (key_of("sim.py", left, "gpu") == key_of("sim.py", other, "gpu")) is same
    assert key_of("sim.py", left, "gpu") != key_of("sim.py", left, "cpu")


def test_times_are_kept_per_script_and_the_least_recent_script_is_evicted(tmp_path: Path) -> None:
    folder = tmp_path / PHASE_TIMES
    _record(tmp_path, "old.py", 1.0)
    for number in range(MAX_FILES):
        (folder / f"{number}.json").touch()
    (old,) = folder.glob("?" * 32 + ".json")
    os.utime(old, (0, 0))
    _record(tmp_path, "new.py", 2.0)
    assert [_usual(tmp_path, script) for script in ("old.py", "new.py")] == [None, 2.0]
    assert len(list(folder.iterdir())) == MAX_FILES


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"\xff\xff", b'{"key": "a"}', b"[" * 50_000])
def test_an_invalid_file_is_ignored_and_replaced(tmp_path: Path, broken: bytes) -> None:
    _record(tmp_path, "a.py", 5.0)
    (path,) = (tmp_path / PHASE_TIMES).iterdir()
    path.write_bytes(broken)
    assert _usual(tmp_path, "a.py") is None
    _record(tmp_path, "a.py", 1.0)
    assert _usual(tmp_path, "a.py") == 1.0


# Stale locks of the kernel caches

LONG_AGO = time.time() - 2 * caches.STALE_S


def lock(path: Path, moment: float = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (moment, moment))
    return path


def test_only_old_locks_of_caches_are_stale(tmp_path: Path) -> None:
    root = tmp_path / "quadrants" / "qdcache"
    old = {
        lock(root / "qdcache.lock"),
        lock(root / "kernel_compilation_manager" / "qdcache.lock"),
        lock(root / "ptx_cache_sm_90" / "ptxcache.lock"),
        lock(tmp_path / "gstaichi" / "ticache" / "metadata.lock"),
        lock(tmp_path / "taichi" / "ticache" / "ticache.lock"),
    }
    lock(root / "ptx_cache_sm_86" / "ptxcache.lock", time.time())
    lock(root / "kernel_compilation_manager" / "somebody.lock")
    lock(root / "kernel_compilation_manager" / "qdcache.qdb")
    assert set(caches.remove_stale_locks({"XDG_CACHE_HOME": str(tmp_path)})) == old
    assert caches.remove_stale_locks({"XDG_CACHE_HOME": str(tmp_path)}) == ()
    assert len(list(tmp_path.rglob("*.*"))) == 3


@pytest.mark.parametrize(
    ("environ", "meshes", "kernels"),
    [
        ({"HOME": "home"}, "/w/home/.cache/genesis", "/w/home/.cache/quadrants/qdcache"),
        ({"HOME": ""}, "/.cache/genesis", "/.cache/quadrants/qdcache"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "c"}, "/w/c/genesis", "/w/c/quadrants/qdcache"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/genesis", "/c/quadrants/qdcache"),
    ],
)
def test_genesis_takes_folders_as_they_are_given(environ: dict[str, str], meshes: str, kernels: str) -> None:
    """As Genesis 1.4.5 opens them, by strace."""
    found = (caches.mesh_cache(environ, "/w"), caches.kernel_cache(environ, "/w"))
    assert found == (Path(meshes), Path(kernels))


def test_caches_are_searched_in_the_folders_of_the_worker(tmp_path: Path) -> None:
    kernels, before = lock(tmp_path / "kernels" / "qdcache.lock"), lock(tmp_path / "before" / "ticache.lock")
    environ = {"QD_OFFLINE_CACHE_FILE_PATH": str(kernels.parent), "TI_OFFLINE_CACHE_FILE_PATH": str(before.parent)}
    assert caches.remove_stale_locks({"HOME": str(tmp_path)}) == ()
    assert set(caches.remove_stale_locks({**environ, "HOME": "/nonexistent"})) == {kernels, before}


def test_other_arguments_start_together_until_some_have_made_other_meshes(tmp_path: Path) -> None:
    meshes = tmp_path / "genesis/gsd"
    meshes.mkdir(parents=True)
    (tmp_path / "quadrants/qdcache/any").mkdir(parents=True)

    def run(*args: str, writes: str = "") -> StartMode:
        spec = RunSpec("sim", str(tmp_path), "", "sim.py", args, str(tmp_path), "")
        times = _times(tmp_path, *args)
        mode = times.start_mode(spec)
        if writes:
            (meshes / writes).touch()
        times.history(args).meshes_written = True
        times.save()
        return mode

    assert run("--exp", "a", writes="franka") is StartMode.GATED
    assert run("--exp", "b") is StartMode.TOGETHER
    (meshes / "franka").unlink()
    assert run("--exp", "c", writes="franka") is StartMode.GATED
    assert run("--robot", "go2", writes="go2") is StartMode.TOGETHER
    assert run("--exp", "d") is StartMode.GATED
    assert run("--exp", "d") is StartMode.TOGETHER


def test_only_files_in_ones_own_mesh_cache_are_counted(tmp_path: Path) -> None:
    """Others could make any number of links to large folders."""
    (cache := tmp_path / "genesis" / "gsd").mkdir(parents=True)
    (cache / "mesh").touch()
    (tmp_path / "genesis" / "link").symlink_to("/usr/bin")
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert caches.mesh_count(environ, "/") == 2
    (tmp_path / "genesis").chmod(0o777)
    assert caches.mesh_count(environ, "/") == 0


@pytest.mark.parametrize(
    ("script", "beside", "may"),
    [
        ("import time\ntime.sleep(1)\n", "", False),
        ("import time\ntime.sleep(16)\nimport genesis as gs\n", "", True),
        ("if True:\n    from train_envs import Go2\n", "", True),
        ("from os import path\nimport beside\n", "import json\n", False),
        ("import beside\n", "import genesis\n", True),
        ("import beside\n", "import script\n", False),
        ("import subprocess\nsubprocess.run(['python', 'other.py'])\n", "", True),
    ],
)
def test_imports_show_whether_a_script_may_use_genesis(tmp_path: Path, script: str, beside: str, may: bool) -> None:
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "beside.py").write_text(beside)
    assert may_use_genesis(tmp_path / "script.py") is may


def test_a_script_that_cannot_be_read_may_use_it(tmp_path: Path) -> None:
    """A pipe would never end; another user may have made it on a node."""
    assert may_use_genesis(tmp_path / "gone.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert may_use_genesis(tmp_path / "pipe.py")
