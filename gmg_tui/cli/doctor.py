"""`doctor`: checks that this machine is ready for a run.

The checks of GPUs and packages are functions of what NVML, torch and EGL report.
"""

import asyncio
import fcntl
import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
from msgspec import Struct, structs

from gmg_tui import session as sessions
from gmg_tui.cli.grammar import settings_of
from gmg_tui.cli.printing import print_json, waiting
from gmg_tui.machine.cgroup import cpu_quota, usable_cpus
from gmg_tui.machine.files import lock_trouble
from gmg_tui.machine.folders import distrust
from gmg_tui.machine.gpu import egl, selection
from gmg_tui.machine.gpu.driver import call_driver
from gmg_tui.machine.gpu.egl import EglMap
from gmg_tui.machine.gpu.nvml import Nvml, NvmlUnavailable, cuda_version, driver_version
from gmg_tui.machine.processes import pidfd_trouble
from gmg_tui.machine.slurm import visible_gpus
from gmg_tui.model import Gpu, units
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter, probe
from gmg_tui.scripts.genesis import caches

_TORCH_TIMEOUT_S = 120.0
"""Timeout for importing torch, which takes a minute from a cold network disk."""
_MIN_FREE_MIB, _LOW_FREE_MIB = 16, 1024
"""Free disk space below which sessions fail, and below which eight verbose workers fill the disk within a day."""
_NEARLY_FULL_SHARE = 0.75
"""Share of the kernel cache's limit above which it will soon evict: a scene takes about 10 MB."""
_NETWORK_FS = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.sshfs", "9p", "wekafs")
"""Prefixes of network file system types."""
_VERSIONS_PROGRAM = """
import importlib.metadata as m, importlib.util as u, json, platform
def version(package, module):
    try:
        return m.version(package) if u.find_spec(module) else None
    except m.PackageNotFoundError:
        return "of unknown version"
answer = {"python": platform.python_version(), "genesis": version("genesis-world", "genesis")}
answer["torch"] = version("torch", "torch")
answer["others"] = {name: v for module, package, name in OTHERS if (v := version(package, module))}
if answer["torch"]:
    try:
        import torch
        answer["cuda"] = torch.version.cuda
        answer["gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""
OK, WARN, FAIL = "ok", "warn", "FAIL"
"""Verdicts: works; works with limitations; a plain run would fail."""


class Finding(Struct, frozen=True):
    """One line of `gmg-tui doctor`."""

    check: str
    verdict: str
    result: str
    advice: str | None = None


class NvmlView(Struct, frozen=True):
    """NVML's view of this machine."""

    gpus: tuple[Gpu, ...] = ()
    """GPUs and MIG instances."""
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA version that the driver supports."""
    error: str | None = None

    @property
    def whole_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that answer, without MIG instances."""
        return tuple(gpu for gpu in self.gpus if gpu.mig_index is None and gpu.trouble is None)


class PackageVersions(Struct, frozen=True):
    """Versions of an interpreter's packages (None if missing), and what its torch sees."""

    python: str
    genesis: str | None = None
    torch: str | None = None
    others: dict[str, str] = {}
    """Versions of other simulators and trainers, by name."""
    cuda: str | None = None
    """CUDA version that torch was built for, if any."""
    gpus: int = 0
    """Number of GPUs that torch sees."""
    error: str = ""
    """Error raised by importing torch; empty if none."""


def doctor(python: str | None, *, as_json: bool) -> int:
    """Prints the findings one by one, or all as JSON; returns 1 if a plain run would fail, else 0.

    Raises `GmgError` if `python` is not an interpreter.
    """
    if python is not None:
        interpreter.check_python(python)
    findings = []
    for finding in _run_checks(python, os.environ):
        findings.append(finding)
        if not as_json:
            text = "; ".join(filter(None, (finding.result, finding.advice)))
            print(f"{finding.verdict:<4}  {finding.check:<12}  {text}", flush=True)
    if as_json:
        print_json(findings)
    return int(any(finding.verdict == FAIL for finding in findings))


def _run_checks(python: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yields the findings of the checks that apply; `python` is the value of `--python`."""
    version = f"{interpreter.own_version()}, Python {platform.python_version()}, {platform.platform()}"
    yield Finding("gmg-tui", OK, version)
    python_source = "--python" if python is not None else None
    try:
        settings = settings_of("run")
    except GmgError as error:
        yield Finding("settings", FAIL, str(error))
    else:
        if settings is not None:
            yield Finding("settings", OK, str(settings.path))
            if python is None and (python := settings.options.get("python")) is not None:
                python_source = f"python in {settings.path}"
    with waiting("asking the driver"):
        nvml = _query_nvml()
    yield check_driver(nvml)
    if nvml.error is None:
        yield check_gpus(nvml)
    if nvml.whole_gpus:
        yield check_visible_gpus(nvml, environ)
    python, packages = _find_packages(python, environ)
    yield check_packages(python, packages, interpreter.origin(python, environ, python_source))
    if isinstance(packages, PackageVersions) and packages.torch is not None:
        yield check_torch(packages, nvml)
    with waiting("asking EGL for its devices"):
        egl_map = asyncio.run(egl.probe())
    yield check_egl(egl_map, nvml)
    yield check_folder("mesh cache", caches.mesh_cache(environ), "GS_CACHE_FILE_PATH")
    yield check_kernel_cache(environ, packages.genesis if isinstance(packages, PackageVersions) else None)
    yield check_sessions_folder()
    yield check_cpus()
    yield check_signals()


def check_signals() -> Finding:
    """Checks that processes can be signalled by pidfd."""
    if (trouble := pidfd_trouble()) is None:
        return Finding("signals", OK, "processes are signalled by pidfd")
    return Finding("signals", WARN, f"processes are signalled by PID, after comparing their start times: {trouble}")


def check_cpus() -> Finding:
    """Counts the CPUs that workers share."""
    usable, quota = usable_cpus(), cpu_quota()
    quota_text = "" if quota is None else f"; the container's quota is {quota:g} of {os.cpu_count()}"
    return Finding("CPUs", OK, f"{usable} for the workers{quota_text}")


def _query_nvml() -> NvmlView:
    """Queries NVML, with a timeout: the driver may hang, and needs seconds per GPU without persistence mode."""

    def query() -> NvmlView:
        with closing(Nvml.open()) as nvml:
            return NvmlView(nvml.gpus(), driver_version(), cuda_version())

    try:
        return call_driver(query)
    except NvmlUnavailable as error:
        return NvmlView(error=str(error))


def check_driver(nvml: NvmlView) -> Finding:
    """Checks that NVML answers."""
    if nvml.error is not None:
        return Finding("driver", FAIL, nvml.error, "without GPUs: gmg-tui --cpu N SCRIPT, or gmg-tui demo")
    cuda = f" with CUDA {nvml.cuda}" if nvml.cuda is not None else ""
    return Finding("driver", OK, f"NVIDIA {nvml.driver or '(unknown version)'}{cuda}, NVML answers")


def check_gpus(nvml: NvmlView) -> Finding:
    """Checks that every GPU answers."""
    if not nvml.gpus:
        return Finding("GPUs", FAIL, "NVML reports none", "see dmesg; start a container with access to the GPUs")
    names = Counter(gpu.name for gpu in nvml.whole_gpus)
    text = ", ".join(f"{number} x {name}" for name, number in names.items()) or "none answers"
    if instances := sum(gpu.mig_index is not None and gpu.trouble is None for gpu in nvml.gpus):
        text += f" with {units.count(instances, 'MIG instance')}"
    if trouble := selection.describe_silent(nvml.gpus):
        return Finding("GPUs", WARN if nvml.whole_gpus else FAIL, f"{text}; {trouble}")
    return Finding("GPUs", OK, text)


def check_visible_gpus(nvml: NvmlView, environ: Mapping[str, str]) -> Finding:
    """Checks that `CUDA_VISIBLE_DEVICES` leaves GPUs for a run."""
    visible = visible_gpus(environ, len({gpu.index for gpu in nvml.gpus}))
    try:
        names = ", ".join(slot.name for slot in selection.slots(nvml.gpus, None, visible))
    except GmgError as error:
        return Finding("visible GPUs", FAIL, str(error))
    source = "CUDA_VISIBLE_DEVICES is not set" if visible is None else f"CUDA_VISIBLE_DEVICES={visible}"
    return Finding("visible GPUs", OK, f"{names}; {source}")


def _find_packages(python: str | None, environ: Mapping[str, str]) -> tuple[str, PackageVersions | str]:
    """Returns the workers' interpreter, and its packages or an error message."""
    try:
        path = interpreter.default_python(environ) if python is None else interpreter.check_python(python)
    except GmgError as error:
        return python or "", str(error)
    with waiting("importing torch, which takes seconds"):
        return path, read_packages(path, environ)


def read_packages(python: str, environ: Mapping[str, str]) -> PackageVersions | str:
    """Returns the packages of the interpreter `python`, or an error message; ignores `CUDA_VISIBLE_DEVICES`."""
    env = {**environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    program = f"OTHERS = {probe.packages()!r}\n{_VERSIONS_PROGRAM}"
    try:
        result = interpreter.ask(python, program, timeout_s=_TORCH_TIMEOUT_S, env=env)
    except subprocess.TimeoutExpired:
        return f"no answer within {_TORCH_TIMEOUT_S:.0f} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    try:
        return msgspec.json.decode(result.stdout.strip().rpartition(b"\n")[2], type=PackageVersions)
    except msgspec.MsgspecError:
        last_line = result.stderr.strip().rpartition(b"\n")[2].decode("utf-8", "replace")
        return last_line or f"no answer, exit code {result.returncode}"


def check_packages(python: str, packages: PackageVersions | str, origin: str = "") -> Finding:
    """Checks that the interpreter, described by `origin`, has Genesis and torch, or another simulator or trainer."""
    if isinstance(packages, str):
        return Finding("python", FAIL, f"{origin or python}: {packages}", "choose another one with --python")
    text = f"{origin or python}, Python {packages.python}"
    text += "".join(f", {name} {version}" for name, version in packages.others.items())
    if packages.genesis is None and packages.others:
        return Finding("python", OK, f"{text}; without Genesis")
    if missing := " and ".join(name for name in ("genesis", "torch") if getattr(packages, name) is None):
        return Finding("python", FAIL, f"{text}, without {missing}", interpreter.install_command(python))
    return Finding("python", OK, f"{text}, Genesis {packages.genesis}, torch {packages.torch}")


def check_torch(packages: PackageVersions, nvml: NvmlView) -> Finding:
    """Checks that torch sees the GPUs that NVML reports."""
    if packages.error:
        return Finding("torch", FAIL, f"cannot be imported: {packages.error}", "reinstall it for that interpreter")
    text = f"built for CUDA {packages.cuda}" if packages.cuda else "built without CUDA"
    total, advice = units.count(len(nvml.whole_gpus), "GPU"), "install a torch built for CUDA"
    if nvml.whole_gpus and not packages.gpus:
        if packages.cuda:
            advice = f"update the driver, or install a torch built for a CUDA before {packages.cuda}"
        return Finding("torch", FAIL, f"{text}, sees none of {total}: workers would fall back to the CPU", advice)
    if packages.gpus < len(nvml.whole_gpus) and not any(gpu.mig for gpu in nvml.whole_gpus):
        return Finding("torch", WARN, f"{text}, sees {packages.gpus} of {total}", "see dmesg and nvidia-smi")
    return Finding("torch", OK, f"{text}, sees {units.count(packages.gpus, 'GPU')}")


def check_egl(egl_map: EglMap, nvml: NvmlView) -> Finding:
    """Checks that each GPU has an EGL device, so that workers with cameras can render on their own GPU."""
    if egl_map.error is not None:
        advice = "install the driver's EGL library (libEGL_nvidia.so.0); workers without cameras do not need it"
        return Finding("EGL", WARN, egl_map.error, advice)
    indices = {f"gpu{gpu.index}": egl_map.index_of(gpu)[0] for gpu in nvml.whole_gpus if not gpu.mig}
    if unmatched := [name for name, index in indices.items() if index is None]:
        text = f"none of {units.count(len(egl_map.devices), 'EGL device')} matches {', '.join(unmatched)}"
        return Finding("EGL", WARN, f"{text}: workers there render on the first device that works")
    devices = ", ".join(f"{name} is EGL device {index}" for name, index in indices.items())
    return Finding("EGL", OK, devices or units.count(len(egl_map.devices), "device"))


def check_folder(check: str, path: Path | None, variable: str, *, remark: str | None = None) -> Finding:
    """Checks that a folder (None without a home) is writable and on a local disk.

    If not, advises setting `variable`. `remark` is appended to the result; by default, it marks a cold cache.
    """
    if path is None:
        return Finding(check, FAIL, "this user has no home folder", f"set HOME, or {variable} to a writable folder")
    is_absolute, path, existing = path.is_absolute(), path.absolute(), _nearest_existing(path)
    if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(check, FAIL, f"{path} cannot be written", f"set {variable} to a writable folder")
    value = f"{path}{remark if remark is not None else '' if os.path.isdir(path) else ', cold'}"
    if not is_absolute:
        reason = "HOME or XDG_CACHE_HOME is relative, so each working folder has its own cache"
        return Finding(check, WARN, value, f"{reason}; set {variable}")
    if (trouble := distrust(path)) is not None:
        return Finding(check, WARN, f"{value}: {trouble}", f"set {variable} to a folder that is yours alone")
    if (kind := network_file_system(path)) is not None:
        advice = f"set {variable} to a folder on a local disk"
        return Finding(check, WARN, f"{value}, on a network disk ({kind})", advice)
    return Finding(check, OK, value)


def check_kernel_cache(environ: Mapping[str, str], genesis: str | None) -> Finding:
    """Checks that compiled kernels can be cached, and that Genesis of version `genesis` will not evict any soon."""
    finding = check_folder("kernel cache", path := caches.kernel_cache(environ), "QD_OFFLINE_CACHE_FILE_PATH")
    if finding.verdict == FAIL or path is None or not os.path.isdir(path):
        return finding
    size, limit = caches.kernel_cache_use(environ, genesis)
    text = f"{finding.result}, {units.size(size)}"
    if limit is None:
        return structs.replace(finding, result=text)
    text, full = f"{text} of at most {units.size(limit)}", size >= _NEARLY_FULL_SHARE * limit
    if full or limit < caches.LARGE_LIMIT:
        remedy = f"{caches.CACHE_LIMIT}={caches.LARGE_LIMIT} raises the limit"
        advice = f"Genesis {genesis} evicts kernels beyond that; {remedy}"
        finding = structs.replace(finding, advice="; ".join(filter(None, (finding.advice, advice))))
    return structs.replace(finding, result=text, verdict=WARN if full else finding.verdict)


def check_sessions_folder() -> Finding:
    """Checks that sessions can be stored, with room for their logs."""
    try:
        folder = sessions.sessions_folder()
    except GmgError as error:
        return Finding("sessions", FAIL, str(error))
    if str(folder) != str(folder).encode(errors="replace").decode():
        return Finding("sessions", FAIL, f"{folder} is not UTF-8", "set XDG_STATE_HOME to another folder")
    free_mib = shutil.disk_usage(_nearest_existing(folder)).free / (1 << 20)
    finding = check_folder("sessions", folder, "XDG_STATE_HOME", remark=f", {units.mib(free_mib)} free")
    if finding.verdict == FAIL or free_mib >= _LOW_FREE_MIB:
        return _with_lock_warning(finding, _nearest_existing(folder))
    verdict = FAIL if free_mib < _MIN_FREE_MIB else WARN
    return structs.replace(finding, verdict=verdict, advice="free some space there, or set XDG_STATE_HOME")


def _with_lock_warning(finding: Finding, folder: Path) -> Finding:
    """Returns `finding`, with a warning if the folder's file system does not support locks."""
    trouble = lock_trouble(folder, fcntl.flock) or lock_trouble(folder, fcntl.lockf)
    if trouble is None:
        return finding
    advice = "other machines cannot tell if a session is running: set XDG_STATE_HOME to a folder on a local disk"
    result = f"{finding.result}, where files cannot be locked ({trouble})"
    return structs.replace(finding, verdict=WARN, result=result, advice=advice)


def _nearest_existing(path: Path) -> Path:
    """Returns `path` or its nearest existing parent."""
    path = Path(os.path.realpath(path))
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))


def network_file_system(path: Path) -> str | None:
    """Returns the type of network file system that `path` would be on; None for a local disk."""
    existing = _nearest_existing(path)
    mounts = [mount for mount in psutil.disk_partitions(all=True) if existing.is_relative_to(mount.mountpoint)]
    # The last of several mounts at one point hides the others.
    mounts.sort(key=lambda mount: len(Path(mount.mountpoint).parts))
    return mounts[-1].fstype if mounts and mounts[-1].fstype.startswith(_NETWORK_FS) else None
