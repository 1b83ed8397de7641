"""What a run of the benchmark needs: a folder, simulated GPUs whose metrics change, and a description of the machine."""

import compileall
import contextlib
import importlib.metadata
import os
import platform
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests import nvml_sim
from tests.nvml_sim.__main__ import animate

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FAKE = ROOT / "tests" / "fake_worker.py"


class Ground:
    """A temporary folder with all state of the programs that are measured.

    Attributes:
        folder: The folder; short, because sockets lie in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # As an installer does: else gmg-tui would compile itself at each start, and its peers would not.
        compileall.compile_dir(ROOT / "gmg_tui", quiet=1)
        self._library = self._build()
        self._marks = 0

    def _build(self) -> Path:
        """Compile the simulated driver, with the functions that only the peers call."""
        library = self.folder / "nvml" / "libnvidia-ml.so.1"
        library.parent.mkdir()
        sources = [str(HERE / "more_nvml.c"), str(nvml_sim.SOURCES / "nvml_sim.c")]
        flags = ["-shared", "-fPIC", "-O1", "-pthread", f"-Wl,-soname,{library.name}"]
        subprocess.run(["gcc", *flags, "-o", str(library), *sources], check=True)
        return library.parent

    def mark(self) -> str:
        """A word that identifies the processes of the next program."""
        self._marks += 1
        return f"{self.folder.name}-{self._marks}"

    def env(self) -> dict[str, str]:
        """The environment of every program, without GPUs."""
        run = self.folder / "run"
        run.mkdir(mode=0o700, exist_ok=True)
        return {
            **os.environ,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "COLORTERM": "",
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(run),
        }

    @contextlib.contextmanager
    def gpus(self, count: int) -> Iterator[dict[str, str]]:
        """`count` simulated GPUs whose metrics change each second, and the environment that shows them."""
        sim = nvml_sim.Sim(self.folder / f"GPUs{count}", self._library, count)
        for index, gpu in enumerate(sim.gpus):
            gpu.processes = [nvml_sim.Process(pid=40_000 + index, memory_mib=30211)]
        animate(sim, 0)
        end = threading.Event()

        def change() -> None:
            second = 1
            while not end.wait(1.0):
                animate(sim, second)
                second += 1

        thread = threading.Thread(target=change)
        thread.start()
        try:
            yield self.env() | sim.env()
        finally:
            end.set()
            thread.join()


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """A ground for one run, removed at its end."""
    with tempfile.TemporaryDirectory(prefix="gmg-bench-", ignore_cleanup_errors=True) as folder:
        yield Ground(Path(folder))


def machine() -> str:
    """The machine and the versions, in one line."""
    model = "unknown CPU"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores ({model}), Linux {platform.release()}, Python {platform.python_version()}, "
        f"Textual {importlib.metadata.version('textual')}; load average at the start {load}"
    )
