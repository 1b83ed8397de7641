"""Simulated GPUs whose memory and processes follow the workers that run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.nvml_sim import Process, Sim

_IDLE_MIB = 600.0
_EACH_S = 0.2


@contextmanager
def following(sim: Sim, folder: Path) -> Iterator[None]:
    """While this is open, `sim` has the processes that `folder` names: a file each, called by PID, with GPU and MiB."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.wait(_EACH_S):
            look(sim, folder)

    look(sim, folder)
    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def look(sim: Sim, folder: Path) -> None:
    """Give each GPU the processes that live."""
    processes: dict[int, list[Process]] = {}
    for file in folder.iterdir():
        words = file.read_text().split()
        if len(words) == 2 and Path("/proc", file.name).exists():
            processes.setdefault(int(words[0]), []).append(Process(int(file.name), float(words[1])))
    for index, gpu in enumerate(sim.gpus):
        gpu.processes = processes.get(index, [])
        gpu.memory_used_mib = _IDLE_MIB + sum(process.memory_mib or 0.0 for process in gpu.processes)
    sim.write()
