"""The caches of Genesis and Quadrants, their stale locks, and the times of a script's earlier starts.

Quadrants, like Taichi before it, locks its cache with an empty file made with `O_CREAT | O_EXCL` (quadrants/util/lock.h), which
has no owner and does not expire. It exists for well under a second, while kernels are loaded or saved. If the process is
killed in that time, the file stays: every later start warns `Lock … failed`, and neither loads nor saves kernels.

A run saves its kernels when it ends cleanly, and its meshes before its first step. Cold and warm starts differ by
minutes, so their times are kept apart.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui.machine.files import open_for_reading, write_atomic
from gmg_tui.machine.folders import distrust, files_in, make_private, passwd_home
from gmg_tui.machine.ownership import put_by_another
from gmg_tui.model import Phase, RunSpec, StartMode
from gmg_tui.scripts.interpreter import version_numbers, versions

STALE_S = 60.0
"""Age above which no process holds a lock any more."""

CACHE_LIMIT = "QD_OFFLINE_CACHE_MAX_SIZE_OF_FILES"
LARGE_LIMIT = (1 << 31) - 1
"""Bytes; the limit that Genesis has set since version `_LIMIT_SINCE`."""
_LIMIT_SINCE = (1, 4, 5)
_COMPILER_LIMIT = 100 << 20

_LOCK_NAMES = ("qdcache.lock", "ptxcache.lock", "ticache.lock", "metadata.lock")
"""The locks of kernels and of PTX: Quadrants' names, then Taichi's."""

PHASE_TIMES = "phase_times"
"""The folder with a file for each script and its arguments, beside the sessions' folder."""
MAX_FILES = 200
"""Maximum files to keep in that folder, the newest."""
_MAX_FILE_BYTES = 1 << 16
_MAX_MESHES = 100_000
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_SEED = re.compile(r"seed(?:$|=)", re.IGNORECASE)
"""`--seed 1`, `--seed=1`, hydra's `env.seed=1`."""
_ANY_ARGUMENTS = ("with any arguments",)
_RACE_PROOF = (0, 3, 12)
"""The first version of Genesis that tolerates races for the mesh cache."""

_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_INDIRECT = frozenset({"importlib", "multiprocessing", "runpy", "subprocess"})
"""Modules of the standard library that run code without a visible import."""
_MAX_MODULES, _MAX_SOURCE_BYTES = 64, 1 << 20


def mesh_cache(environ: Mapping[str, str], cwd: str = "") -> Path | None:
    """Returns the mesh cache: `GS_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (1.4.5: genesis/utils/cache.py).

    Genesis and its compiler resolve relative folders against the script's working directory `cwd`, contrary to the XDG
    specification. Returns None for a user without a home folder.
    """
    return _cache("GS_CACHE_FILE_PATH", "genesis", environ, cwd)


def kernel_cache(environ: Mapping[str, str], cwd: str = "") -> Path | None:
    """Returns the kernel cache: `QD_OFFLINE_CACHE_FILE_PATH`, else below `XDG_CACHE_HOME` or `~/.cache` (compile_config.h)."""
    return _cache("QD_OFFLINE_CACHE_FILE_PATH", "quadrants/qdcache", environ, cwd)


def _kernel_caches(environ: Mapping[str, str], cwd: str) -> list[Path]:
    # Before Genesis 0.4 the compiler was Taichi or GsTaichi.
    old = [_cache("TI_OFFLINE_CACHE_FILE_PATH", f"{name}/ticache", environ, cwd) for name in ("gstaichi", "taichi")]
    return [folder for folder in dict.fromkeys((kernel_cache(environ, cwd), *old)) if folder is not None]


def kernel_cache_use(environ: Mapping[str, str], genesis: str | None) -> tuple[int, int | None]:
    """Returns the kernel cache's size, and the size at which kernels are evicted (bytes; None if unknown).

    Genesis has set a limit of 2 GiB since 1.4.5; older versions leave it to their compiler.
    """
    folder = kernel_cache(environ)
    size = sum(status.st_size for status in files_in(folder)) if folder is not None else 0
    given = environ.get(CACHE_LIMIT, "")
    if given.isdigit():
        return size, int(given)
    version = version_numbers(genesis)
    return size, None if not version else LARGE_LIMIT if version >= _LIMIT_SINCE else _COMPILER_LIMIT


def _cache(variable: str, name: str, environ: Mapping[str, str], cwd: str) -> Path | None:
    if path := environ.get(variable):
        return Path(cwd, path)
    base = environ.get("XDG_CACHE_HOME")
    if base is None:
        home = environ.get("HOME", passwd_home())
        base = f"{home}/.cache" if home is not None else None
    return Path(cwd, base, name) if base is not None else None


def mesh_count(environ: Mapping[str, str], cwd: str) -> int:
    """Returns the number of files in the mesh cache, up to `_MAX_MESHES`; 0 if another user could change it."""
    cache = mesh_cache(environ, cwd)
    if cache is None or distrust(cache) is not None:
        return 0
    return sum(1 for _ in islice(files_in(cache), _MAX_MESHES))


def has_kernels(environ: Mapping[str, str], cwd: str) -> bool:
    """True if the cache holds compiled kernels of any script."""
    cache = kernel_cache(environ, cwd)
    if cache is None or put_by_another(cache) is not None:
        return False
    try:
        with os.scandir(cache) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def remove_stale_locks(environ: Mapping[str, str], cwd: str = "") -> tuple[Path, ...]:
    """Removes stale locks from the kernel caches of a worker with this environment. Returns their paths.

    Skips caches that another user could change.
    """
    removed = []
    for lock in (lock for root in _kernel_caches(environ, cwd) if distrust(root) is None for lock in _locks(root)):
        with suppress(OSError):
            if time.time() - lock.lstat().st_mtime > STALE_S:
                lock.unlink()
                removed.append(lock)
    return tuple(removed)


def _locks(root: Path) -> Iterator[Path]:
    """Yields the locks in a cache and in its folders, such as `kernel_compilation_manager` and `ptx_cache_sm_90`."""
    with suppress(OSError):  # another user's folder, or a network disk's fault
        for pattern in ("*.lock", "*/*.lock"):
            yield from (path for path in root.glob(pattern) if path.name in _LOCK_NAMES)


def key_of(script: str, args: Sequence[str], kind: str) -> str:
    """Returns the key of a script: its path or module, its arguments without their numbers, and the slots' kind.

    One warm cache serves every n_envs (Genesis 1.4.5, ndarray mode), and kernels do not depend on learning rates. Seeds
    are kept, as each has its own kernels (Genesis 1.4.5: `qd.init(random_seed=…)` is part of a kernel's key).
    """
    words = [
        arg if _SEED.search(arg) or _SEED.search(previous) else _NUMBER.sub("#", arg)
        for previous, arg in pairwise(["", *args])
    ]
    return " ".join([script, *words, "on", kind])


class PhaseTimes(Struct):
    """The history of a script with one set of arguments, as stored in its file."""

    key: str
    versions: str
    """The versions of Genesis and its compiler; other versions recompile everything."""
    meshes_written: bool = False
    """True once a run has prepared all its meshes."""
    kernels_saved: bool = False
    """True once a run has simulated and ended cleanly."""
    meshes: int = 0
    """Number of files in the mesh cache when the history was last saved."""
    meshes_vary: bool = False
    """True if other arguments have needed other meshes."""
    cold: dict[str, float] = {}
    warm: dict[str, float] = {}

    def usual(self, phase: Phase, *, warm: bool) -> float | None:
        """Returns the seconds that `phase` took in the last cold or warm start; None if unknown."""
        return (self.warm if warm else self.cold).get(phase.value)

    def record(self, times: Mapping[Phase, float], *, warm: bool) -> None:
        """Records the seconds of an attempt's phases."""
        seconds = {phase.value: time for phase, time in times.items() if phase is not Phase.RUNNING}
        (self.warm if warm else self.cold).update(seconds)


class ScriptTimes:
    """The histories of a session's script by its arguments, kept in a folder of `state_folder`."""

    def __init__(self, spec: RunSpec, state_folder: Path, *, on_gpu: bool) -> None:
        self._folder = state_folder / PHASE_TIMES
        self._kind = "gpu" if on_gpu else "cpu"
        self._script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
        installed = versions(spec.python)
        self._versions = f"{installed.genesis} {installed.compiler}"
        self._is_race_proof = version_numbers(installed.genesis) >= _RACE_PROOF
        self._environ, self._cwd = {**os.environ, **spec.env}, spec.cwd
        self._caches_exist = has_kernels(self._environ, self._cwd)
        self._meshes = mesh_count(self._environ, self._cwd)
        self._known: dict[Path, PhaseTimes] = {}
        self._written: dict[Path, bytes] = {}
        self._own_args, self._any_args = self.history(spec.args), self.history(_ANY_ARGUMENTS)
        self._is_first = not self._own_args.meshes_written
        """True until a worker has built a scene with these arguments for the first time."""

    def history(self, args: Sequence[str]) -> PhaseTimes:
        """Returns the history of the script with these arguments, before placeholders are filled in. Reads the disk."""
        key = key_of(self._script, args, self._kind)
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        if path not in self._known:
            times = _read(path)
            if times is None or (times.key, times.versions) != (key, self._versions):
                times = PhaseTimes(key, self._versions)
            self._written[path] = msgspec.json.encode(times)
            times.meshes_written &= self._caches_exist
            times.kernels_saved &= self._caches_exist
            self._known[path] = times
        return self._known[path]

    def save(self) -> None:
        """Writes the changed histories. Raises `OSError`."""
        if self._is_first and self._own_args.meshes_written:
            self._is_first, had_all_meshes = (
                False,
                self._any_args.meshes_written and self._any_args.meshes <= self._meshes,
            )
            self._any_args.meshes = mesh_count(self._environ, self._cwd)
            self._any_args.meshes_vary |= had_all_meshes and self._any_args.meshes > self._meshes
            self._any_args.meshes_written = True
        for path, times in list(self._known.items()):
            data = msgspec.json.encode(times)
            if data != self._written[path]:
                make_private(self._folder)
                write_atomic(path, data + b"\n")
                self._written[path] = data
                with suppress(OSError):  # another session may evict at the same time
                    for file in sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-MAX_FILES]:
                        file.unlink()

    def start_mode(self, spec: RunSpec) -> StartMode:
        """Returns the default start mode: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before: with these arguments, or with any if no arguments have needed
        other meshes. Ranks start together, as they wait for each other.
        """
        is_rank = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        if is_rank or self._own_args.meshes_written or self._has_meshes:
            return StartMode.TOGETHER
        return StartMode.GATED if spec.module or may_use_genesis(Path(self._script)) else StartMode.TOGETHER

    @property
    def _has_meshes(self) -> bool:
        """True if the meshes of earlier runs are still cached, and no arguments have needed others."""
        known = self._any_args.meshes_written and not self._any_args.meshes_vary
        return known and self._is_race_proof and 0 < self._any_args.meshes <= self._meshes


def _read(path: Path) -> PhaseTimes | None:
    try:
        with open_for_reading(path) as file:
            return msgspec.json.decode(file.read(_MAX_FILE_BYTES), type=PhaseTimes)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def may_use_genesis(script: Path) -> bool:
    """Returns False if the script and the modules beside it only import each other and the standard library."""
    queue, visited = [script], {script}
    while queue:
        try:
            with open_for_reading(queue.pop()) as file:
                text = file.read(_MAX_SOURCE_BYTES)
        except OSError:
            return True
        names = {name.decode() for name in _IMPORT.findall(text)}
        if b"genesis" in text or names & _INDIRECT or len(text) == _MAX_SOURCE_BYTES or len(visited) > _MAX_MODULES:
            return True
        for name in names - sys.stdlib_module_names:
            module = script.with_name(f"{name}.py")
            if not os.path.isfile(module):
                return True
            if module not in visited:
                visited.add(module)
                queue.append(module)
    return False
