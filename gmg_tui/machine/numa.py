"""The NUMA nodes of GPUs and CPUs, from sysfs."""

import os
import re
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path

from gmg_tui.model import Slot

_SYS = Path("/sys")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{0,4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
"""NVML's form of an address, with eight digits for the domain; sysfs has four."""
BINDING_VARIABLES = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND")
"""Variables with which users choose the cores themselves."""


def node_of(pci_bus_id: str | None, sys: Path = _SYS) -> int | None:
    """Returns the NUMA node of a PCI device; None if unknown, as on many machines with a single node."""
    address = _PCI_ADDRESS.fullmatch((pci_bus_id or "").lower())  # a node could report any path
    if address is None:
        return None
    with suppress(OSError, ValueError):
        node = int((sys / "bus/pci/devices" / address[1] / "numa_node").read_text())
        return node if node >= 0 else None
    return None


def remote_cpus(cpus: Iterable[int], node: int | None, sys: Path = _SYS) -> tuple[int, ...]:
    """Returns the `cpus` that are not on `node`; empty if unknown."""
    if node is None:
        return ()
    with suppress(OSError, ValueError):
        near = _cpus_of(node, sys)
        return tuple(cpu for cpu in cpus if cpu not in near)
    return ()


def near_cores(slots: Iterable[Slot], sys: Path = _SYS) -> dict[str, frozenset[int]]:
    """Returns the usable cores of the NUMA node of each slot's GPU, by slot.

    Omits CPU slots, and GPUs whose node has all or none of the usable cores.
    """
    usable, cores = os.sched_getaffinity(0), dict[str, frozenset[int]]()
    for slot in slots:
        node = node_of(slot.gpu.pci_bus_id, sys) if slot.gpu is not None else None
        with suppress(OSError, ValueError):
            near = frozenset(_cpus_of(node, sys) if node is not None else ()) & usable
            if near and near < usable:
                cores[slot.name] = near
    return cores


def cores_near_any(names: Iterable[str], near: Mapping[str, frozenset[int]]) -> frozenset[int] | None:
    """Returns the cores near any of these slots; None if those of a slot are unknown."""
    known = [near.get(name, frozenset()) for name in names]
    return frozenset().union(*known) or None if all(known) else None


def pin(pid: int, cores: Set[int]) -> None:
    """Pins a process that has just been started, and its future children, to these cores."""
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, not paths
            with suppress(OSError):
                os.sched_setaffinity(int(thread), cores)


def cores_text(cores: Set[int]) -> str:
    """Formats cores as the kernel does: `0-15,32`."""
    ranges: list[str] = []
    first = last = -2
    for core in (*sorted(cores), -1):
        if core == last + 1:
            last = core
            continue
        if first >= 0:
            ranges.append(f"{first}-{last}" if last > first else str(first))
        first = last = core
    return ",".join(ranges)


def _cpus_of(node: int, sys: Path) -> set[int]:
    """Returns the CPUs of a node, from a list such as `0-7,16-23`. Raises `OSError` or `ValueError`."""
    text = (sys / f"devices/system/node/node{node}/cpulist").read_text()
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}
