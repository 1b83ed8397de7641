"""The workers' interpreter: its Genesis and torch, and whether torch sees the GPUs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from gmg_tui.commands.doctor.finding import Finding, fail, ok, warn
from gmg_tui.commands.doctor.gpus import NvmlView
from gmg_tui.genesis.interpreter import install_command
from gmg_tui.units import count

_Answer = TypeVar("_Answer")

_VERSIONS_S = 30.0
_TORCH_S = 120.0
"""How long `import torch` may take; from a cold network disk it takes a minute."""

_VERSIONS = """
import importlib.metadata as m, importlib.util as u, json, platform
def version(package, module):
    if u.find_spec(module) is None:
        return None
    try:
        return m.version(package)
    except m.PackageNotFoundError:
        return "of unknown version"
print(json.dumps({
    "python": platform.python_version(),
    "genesis": version("genesis-world", "genesis"),
    "torch": version("torch", "torch"),
}))
"""
_TORCH = """
import json, torch
seen = torch.cuda.is_available()
print(json.dumps({
    "cuda": torch.version.cuda,
    "gpus": torch.cuda.device_count() if seen else 0,
}))
"""


class Versions(Struct, frozen=True):
    """The versions installed for an interpreter; None where something is missing."""

    python: str
    genesis: str | None = None
    torch: str | None = None


class Seen(Struct, frozen=True):
    """Torch's view of CUDA."""

    gpus: int = 0
    cuda: str | None = None
    """The version of CUDA that torch was built for; None for a build without."""


def ask_versions(python: str, environ: Mapping[str, str]) -> Versions | str:
    """What is installed for the interpreter `python`, or why that is unknown; imports neither torch nor Genesis."""
    return _ask(python, _VERSIONS, Versions, environ, _VERSIONS_S)


def ask_torch(python: str, environ: Mapping[str, str]) -> Seen | str:
    """How many GPUs the interpreter's torch sees without restrictions, or why that is unknown; takes seconds."""
    # As a worker is started (gmg_tui.genesis.environ), but with every GPU visible.
    kept = {name: value for name, value in environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return _ask(python, _TORCH, Seen, kept | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, _TORCH_S)


def installed(python: str, versions: Versions | str) -> Finding:
    """Whether the interpreter has Genesis and torch."""
    if isinstance(versions, str):
        return fail("python", f"{python}: {versions}", "choose another one with --python")
    missing = [name for name in ("genesis", "torch") if getattr(versions, name) is None]
    found = f"{python}, Python {versions.python}"
    if missing:
        return fail("python", f"{found}, without {' and '.join(missing)}", install_command(python))
    return ok("python", f"{found}, Genesis {versions.genesis}, torch {versions.torch}")


def torch(seen: Seen | str, nvml: NvmlView) -> Finding:
    """Whether torch sees the GPUs that NVML reports."""
    if isinstance(seen, str):
        return fail("torch", f"cannot be imported: {seen}", "reinstall it for that interpreter")
    number = len(nvml.whole)
    build = f"built for CUDA {seen.cuda}" if seen.cuda else "built without CUDA"
    if not number:
        return ok("torch", f"{build}, sees {count(seen.gpus, 'GPU')}")
    if seen.cuda is None:
        return fail("torch", f"{build}: workers would fall back to the CPU", "install a torch that is built for CUDA")
    if not seen.gpus:
        return fail(
            "torch",
            f"{build}, sees none of {count(number, 'GPU')}: workers would fall back to the CPU",
            f"the driver may be too old for CUDA {seen.cuda}: update it, or install a torch for an older CUDA",
        )
    if seen.gpus < number and not any(gpu.mig for gpu in nvml.whole):
        return warn("torch", f"{build}, sees {seen.gpus} of {count(number, 'GPU')}", "see dmesg and nvidia-smi")
    return ok("torch", f"{build}, sees {count(seen.gpus, 'GPU')}")


def _ask(
    python: str, program: str, answer: type[_Answer], environ: Mapping[str, str], patience_s: float
) -> _Answer | str:
    """The last line that `program` prints, decoded; or why there is none, in one line."""
    try:
        done = subprocess.run(
            [python, "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            env=environ,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {patience_s:.0f} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    try:
        return msgspec.json.decode(done.stdout.strip().rpartition(b"\n")[2], type=answer)
    except msgspec.MsgspecError:
        last = done.stderr.strip().rpartition(b"\n")[2].decode("utf-8", "replace")
        return last or f"no answer, exit code {done.returncode}"


def ranks() -> Finding:
    """How a training on several GPUs is started where torch is installed."""
    return ok("ranks", "gmg-tui --ddp TRAIN.py starts them in torchrun's place, and shows each")
