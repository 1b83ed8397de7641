"""The programs that are compared: how each is started, and when its screen is complete."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.ground import FAKE, HERE, Ground

WORKER = [sys.executable, str(FAKE), "--lines", "0", "--fps", "24000000", "-B", "4096", "--rate", "20"]
"""The worker of all programs: 20 of Genesis's progress lines a second."""
_MEMORY = re.compile(r"\d ?(?:GiB|Gi)? ?/ ?79\.6")
"""A GPU's memory in use and in total, as gmg-tui and nvitop write it: values, not only names."""


class Program(NamedTuple):
    name: str
    command: Callable[[Ground, int], list[str]]
    """Its command line, for that many GPUs and workers."""
    metrics: Callable[[str], int]
    """How many slots a screen shows with their metrics; the most that it ever shows is the complete frame."""


def is_worker(command: list[str]) -> bool:
    """Whether a command line is a worker's, or of the shell that starts it."""
    return str(FAKE) in command[1:2] or (command[0].endswith("sh") and str(FAKE) in " ".join(command[1:]))


def _gpus(text: str) -> int:
    return len(_MEMORY.findall(text))


GMG = Program(
    "gmg-tui",
    lambda *_: [sys.executable, "-m", "gmg_tui", "--start", "together", "--stuck-after", "3600", *WORKER[1:]],
    _gpus,
)
LABEL = Program(
    "Textual, one label",
    lambda *_: [sys.executable, str(HERE / "label_app.py")],
    lambda text: int("label-is-shown" in text),
)


def _mprocs(path: str) -> Program:
    def command(ground: Ground, count: int) -> list[str]:
        config = ground.folder / f"mprocs{count}.json"
        config.write_text(json.dumps({"procs": {f"gpu{number}": {"cmd": WORKER} for number in range(count)}}))
        return [path, "--config", str(config)]

    def metrics(text: str) -> int:
        return len(re.findall(r"gpu\d+ +UP", text)) if "Running at" in text else 0

    return Program(f"mprocs {_version(path)}", command, metrics)


def peers(paths: dict[str, Path | None]) -> tuple[list[Program], list[str]]:
    """The peers that are installed, and for each that is not, why it is left out.

    Args:
        paths: Paths of programs by name; None searches PATH for the name.
    """
    available, missing = [], []
    for name, path in paths.items():
        resolved = shutil.which(path or name)
        if resolved is None:
            missing.append(f"{name} is left out: {f'{path} cannot be run' if path else 'it is not on PATH'}")
        elif name == "mprocs":
            available.append(_mprocs(resolved))
        else:
            command = [resolved]
            available.append(Program(f"{name} {_version(resolved)}", lambda *_, c=command: c, _gpus))
    return available, missing


def _version(path: str) -> str:
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\d+(?:\.\d+)+", output)
    return match[0] if match else "of unknown version"
