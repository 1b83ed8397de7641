"""The NUMA nodes of GPUs and CPUs, as the kernel shows them in sysfs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SYS = Path("/sys")


def node_of(pci_bus_id: str | None, sys: Path = _SYS) -> int | None:
    """Returns the node of a PCI device; None on a machine with one node, or if unknown."""
    if pci_bus_id is None:
        return None
    domain, _, rest = pci_bus_id.lower().partition(":")
    with suppress(OSError, ValueError):
        node = int((sys / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
        return node if node >= 0 else None
    return None


def remote(cpus: Iterable[int], node: int | None, sys: Path = _SYS) -> tuple[int, ...]:
    """Returns the `cpus` on other nodes than `node`; none if that is unknown."""
    if node is None:
        return ()
    with suppress(OSError, ValueError):
        near = _listed((sys / f"devices/system/node/node{node}/cpulist").read_text())
        return tuple(cpu for cpu in cpus if cpu not in near)
    return ()


def _listed(text: str) -> set[int]:
    """Returns the numbers of a list such as `0-7,16-23`."""
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}
