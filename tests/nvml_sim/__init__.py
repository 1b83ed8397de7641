"""A simulated NVIDIA driver: `libnvidia-ml.so.1` for the unmodified `pynvml`, its GPUs described from Python.

`build` compiles the library; a `Sim` writes the file that it reads; a program started with `Sim.env()` sees the GPUs.
Change `Sim.gpus` and call `Sim.write()` again, and the running program sees that.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parent
MIB = 1 << 20

HANGS = -1
"""Not of NVML: a function that "fails" with it gives no answer until that is changed."""
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999


def build(folder: Path) -> Path:
    """Compile the library into `folder`, once.

    Returns:
        The folder to put into `LD_LIBRARY_PATH`.

    Raises:
        subprocess.CalledProcessError: Compilation failed.
    """
    return _compile("nvml_sim.c", folder / "nvml" / "libnvidia-ml.so.1")


def build_egl(folder: Path) -> Path:
    """Compile the simulated `libEGL.so.1` into a folder of its own, once; see `egl_sim.c` for what it reads."""
    return _compile("egl_sim.c", folder / "egl" / "libEGL.so.1")


def _compile(source: str, library: Path) -> Path:
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", f"-Wl,-soname,{library.name}"]
        subprocess.run(["gcc", *flags, "-o", str(library), str(SOURCES / source)], check=True)
    return library.parent


def uuid_of(text: str) -> str:
    """A UUID that is the same in every run, its first digits unlike those of others."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


@dataclass
class Process:
    pid: int
    memory_mib: float | None = 512
    """None stands for "not available"."""
    graphics: bool = False


@dataclass
class Mig:
    uuid: str
    index: int = 0
    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    memory_total_mib: float = 9984
    memory_used_mib: float = 12
    gpm: dict[int, float] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)


@dataclass
class SimulatedGpu:
    """A GPU and its figures; a figure that is None or named in `unsupported` is not supported."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    pci_bus_id: str = "00000000:1B:00.0"
    memory_total_mib: float | None = 81559
    memory_used_mib: float | None = 30211
    memory_reserved_mib: float = 551
    gpu_util_pct: int | None = 97
    memory_util_pct: int | None = 41
    temperature_c: int | None = 61
    power_w: float | None = 612.5
    power_limit_w: float | None = 700
    sm_clock_mhz: int | None = 1755
    sm_clock_max_mhz: int | None = 1980
    throttle: int | None = 0
    """Bits of nvmlClocksEventReason*."""
    fan_pct: int | None = 40
    pcie_rx_mib_s: float | None = 1200
    pcie_tx_mib_s: float | None = 300
    energy_j: float | None = 1_000_000
    persistence: bool | None = True
    gpm: dict[int, float] = field(default_factory=dict)
    """GPM metrics by their ID, maybe above 100 or NaN; a GPU without any does not support GPM."""
    ecc_corrected: int | None = 0
    ecc_uncorrected: int | None = 0
    ecc_corrected_ever: int | None = 0
    ecc_uncorrected_ever: int | None = 0
    remapped_corrected: int | None = 0
    """None where rows cannot be remapped."""
    remapped_uncorrected: int | None = 0
    remap_pending: bool | None = False
    remap_failed: bool | None = False
    memory_temperature_c: int | None = 66
    memory_temperature_max_c: int | None = 95
    pcie_gen: int | None = 5
    pcie_gen_max: int | None = 5
    pcie_width: int | None = 16
    pcie_width_max: int | None = 16
    pstate: int | None = 0
    nvlink_crc_errors: int | None = 0
    nvlink_replays: int | None = 0
    nvlink_recoveries: int | None = 0
    xids: list[int] = field(default_factory=list)
    """An added Xid is reported by event sets."""
    processes: list[Process] = field(default_factory=list)
    mig: list[Mig] | None = None
    """None where MIG is off; a list, maybe empty, where it is on. Such a GPU does not report its utilisation."""
    lost: bool = False
    unsupported: set[str] = field(default_factory=set)
    """Names of fields above."""
    fails: dict[str, int] = field(default_factory=dict)
    """NVML functions and the error code that each returns for this GPU."""

    def lines(self) -> Iterator[str]:
        yield from ("gpu", f"uuid {self.uuid}", f"name {self.name}", f"pci_bus_id {self.pci_bus_id}")
        hidden = self.unsupported | ({"gpu_util_pct"} if self.mig is not None else set())
        for name, (key, scale) in _FIGURES.items():
            value = getattr(self, name)
            if value is not None and name not in hidden:
                yield f"{key} {round(value * scale)}"
        yield f"mig_mode {int(self.mig is not None)}"
        yield f"lost {int(self.lost)}"
        yield from (f"fail {function} {code}" for function, code in self.fails.items())
        yield from _gpm_lines(self.gpm)
        yield from (f"xid {serial} {code}" for serial, code in enumerate(self.xids, 1))
        yield from _process_lines(self.processes)
        for instance in self.mig or ():
            yield from (f"mig {instance.index}", f"uuid {instance.uuid}", f"name {instance.name}")
            yield f"memory_total_bytes {round(instance.memory_total_mib * MIB)}"
            yield f"memory_used_bytes {round(instance.memory_used_mib * MIB)}"
            yield f"gpu_instance {instance.index + 1}"
            yield from _gpm_lines(instance.gpm)
            yield from _process_lines(instance.processes)


_FIGURES = {
    "memory_total_mib": ("memory_total_bytes", MIB),
    "memory_used_mib": ("memory_used_bytes", MIB),
    "memory_reserved_mib": ("memory_reserved_bytes", MIB),
    "gpu_util_pct": ("gpu_util_pct", 1),
    "memory_util_pct": ("memory_util_pct", 1),
    "temperature_c": ("temperature_c", 1),
    "power_w": ("power_mw", 1000),
    "power_limit_w": ("power_limit_mw", 1000),
    "sm_clock_mhz": ("sm_clock_mhz", 1),
    "sm_clock_max_mhz": ("sm_clock_max_mhz", 1),
    "throttle": ("throttle_mask", 1),
    "fan_pct": ("fan_pct", 1),
    "pcie_rx_mib_s": ("pcie_rx_kb_s", 1024),
    "pcie_tx_mib_s": ("pcie_tx_kb_s", 1024),
    "energy_j": ("energy_mj", 1000),
    "persistence": ("persistence", 1),
    "memory_temperature_c": ("memory_temperature", 1),
    "memory_temperature_max_c": ("memory_temperature_max", 1),
    **{
        name: (name, 1)
        for name in (
            *("ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever", "ecc_uncorrected_ever"),
            *("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"),
            *("pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max", "pstate"),
            *("nvlink_crc_errors", "nvlink_replays", "nvlink_recoveries"),
        )
    },
}
"""A field of `SimulatedGpu`, its key in the file, and how many of the file's units one of the field's is."""


def _process_lines(processes: list[Process]) -> Iterator[str]:
    for process in processes:
        size = -1 if process.memory_mib is None else round(process.memory_mib * MIB)
        yield f"process {'graphics' if process.graphics else 'compute'} {process.pid} {size}"


def _gpm_lines(metrics: dict[int, float]) -> Iterator[str]:
    return (f"gpm {number} {value}" for number, value in metrics.items())


def gpus(count: int) -> list[SimulatedGpu]:
    """`count` GPUs like H100s, no two with the same figures."""
    return [
        SimulatedGpu(
            uuid=f"GPU-{uuid_of(f'gpu {index}')}",
            pci_bus_id=f"{index // 24:08X}:{0x1B + 8 * (index % 24):02X}:00.0",
            memory_used_mib=30211 + index,
            gpu_util_pct=90 + index % 10,
            memory_util_pct=40 + index,
            temperature_c=60 + index,
            power_w=600.5 + index,
            sm_clock_mhz=1700 + index,
            fan_pct=30 + index,
            pcie_rx_mib_s=1200 + index,
            pcie_tx_mib_s=300 + index,
            energy_j=1_000_000 + index,
        )
        for index in range(count)
    ]


class Sim:
    """A driver and its GPUs, for the programs started with `env()`.

    Attributes:
        library: The folder of the library.
        gpus: The GPUs in the order of their indices.
        driver: The driver's version.
        cuda_version: The newest CUDA that the driver runs: 12080 is 12.8; 0 for a driver that does not report it.
        error: A code that every call returns: `DRIVER_NOT_LOADED`, `NO_PERMISSION` …; 0 for none.
        epoch: When it grows, programs get "uninitialized" until they initialise anew.
        delay_ms: Every call takes this long, as on a slow GPU.
        hangs: No call returns until it is False again.
        fails: Functions and the code that each returns for every GPU.
    """

    def __init__(self, folder: Path, library: Path, count: int = 8, egl: Path | None = None) -> None:
        """Write `count` distinct GPUs into `folder`.

        Args:
            folder: Where the described state lives.
            library: What `build` returned.
            count: How many GPUs.
            egl: What `build_egl` returned, for tests of the EGL mapping.
        """
        self.gpus = gpus(count)
        self.driver = "570.86.15"
        self.cuda_version = 12080
        self.error = 0
        self.epoch = 0
        self.delay_ms = 0
        self.hangs = False
        self.fails: dict[str, int] = {}
        self.library = library
        self._egl = egl
        self._folder = folder
        self._recording = False
        folder.mkdir(parents=True, exist_ok=True)
        self.write()

    @property
    def state(self) -> Path:
        return self._folder / "state"

    def no_driver(self) -> None:
        """As without a driver, or with one that was unloaded."""
        self.error = DRIVER_NOT_LOADED
        self.epoch += 1
        self.write()

    def driver_back(self) -> None:
        """The end of a global failure; running programs must initialise anew."""
        self.error = 0
        self.epoch += 1
        self.write()

    def write(self) -> None:
        lines = [f"driver {self.driver}", f"error {self.error}", f"epoch {self.epoch}", f"delay_ms {self.delay_ms}"]
        lines += [f"cuda_version {self.cuda_version}", f"hangs {int(self.hangs)}"]
        lines += [f"log {self._folder / 'calls'}"] if self._recording else []
        lines += [f"fail {function} {code}" for function, code in self.fails.items()]
        for gpu in self.gpus:
            lines += gpu.lines()
        temporary = self.state.with_suffix(".new")
        temporary.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogateescape"))
        temporary.replace(self.state)

    def record(self) -> None:
        """From now on, note the calls of all programs."""
        self._recording = True
        self.write()

    def calls(self) -> list[str]:
        """The NVML functions called since `record` or the last `calls`, in order."""
        taken = self._folder / "calls.taken"
        try:
            (self._folder / "calls").replace(taken)
        except FileNotFoundError:
            return []
        return taken.read_text().split()

    def env(self) -> dict[str, str]:
        """What a program's environment needs so that it sees these GPUs."""
        folders = [str(self.library), str(self._egl or ""), os.environ.get("LD_LIBRARY_PATH", "")]
        path = os.pathsep.join(filter(None, folders))
        return {"LD_LIBRARY_PATH": path, "GMG_NVML_SIM": str(self.state)}
