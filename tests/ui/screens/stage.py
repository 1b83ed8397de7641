"""A stage for the screens: a session of fixed values, and the app on an engine that answers from it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from textual.pilot import Pilot

from gmg_tui.model import (
    Details,
    Fps,
    Gpu,
    GpuProcess,
    GpuSample,
    Phase,
    Progress,
    RunSpec,
    Series,
    Session,
    Slot,
    Snapshot,
    Worker,
    WorkerState,
)
from tests.rates import rate
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp, press
from tests.workers import changed, reached, worker_of

__all__ = ["press"]

NOW = 1_795_244_427.0
"""Unix time of the snapshot: 2026-11-21 07:00:27 UTC."""
EVIL = "\x1b]0;owned\x07\x1b[31m[/] [bold] [/tmp/x] \u202e"
"""Text that sets a title and colours, and markup, where it is not escaped."""
ARGS = ("-B", "4096", "-e", "run-{i}", "--seed", "{seed}")
SLOTS = ("gpu0", "gpu1", "gpu2", "gpu3")


def gpu(index: int) -> Gpu:
    """A GPU."""
    return Gpu(
        index=index,
        uuid=f"GPU-4d23aa10-{index:04d}",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        memory_total_mib=81559,
        power_limit_w=700.0,
        persistence=True,
    )


def session(slots: tuple[Slot, ...]) -> Session:
    """A session on `slots`."""
    spec = RunSpec(
        name="franka-1",
        folder="/home/ada/.local/state/gmg-tui/sessions/franka-1",
        socket="/run/user/1000/gmg-tui/franka-1.sock",
        script="franka.py",
        args=ARGS,
        cwd="/home/ada/sim",
        python="/home/ada/venv/bin/python",
    )
    return Session(spec=spec, slots=slots, engine_pid=4100, started=NOW - 2400, version="0.1.0")


GPU_SESSION = session(tuple(Slot(name, gpu(index)) for index, name in enumerate(SLOTS)))
CPU_SESSION = session((Slot("cpu0"), Slot("cpu1")))


def sample(index: int) -> GpuSample:
    """A sample of the GPU, which reports no fan, as in a server."""
    return GpuSample(
        uuid=gpu(index).uuid,
        gpu_util_pct=97.0,
        memory_util_pct=41.0,
        memory_used_mib=30925.0,
        memory_total_mib=81559.0,
        temperature_c=61.0,
        power_w=612.4,
        power_limit_w=700.0,
        sm_clock_mhz=1755.0,
        sm_clock_max_mhz=1980.0,
        throttle=("power cap",),
        pcie_rx_mib_s=312.0,
        pcie_tx_mib_s=4.5,
        energy_j=91_263_000.0,
    )


def worker(index: int, slot: str) -> Worker:
    """A worker in its second attempt, with twice the environments of the first."""
    now = reached(2, ("-B", "4096", "-e", f"run-{index}"), rate(24_200_311.0), 4096, 97.0, 30925.0, 612.0)
    return worker_of(
        slot=slot,
        index=index,
        state=WorkerState.RUNNING,
        state_since=NOW - 2352.0,
        phase=Phase.RUNNING,
        args=now.args,
        attempt=2,
        attempt_started=NOW,
        pid=5200 + index,
        fps=Fps(24_200_311.0, 23_950_114.0, 24_410_777.0, 812, 24_013_029.0),
        n_envs=4096,
        progress=Progress(412.0, 1000.0, "iteration", 3340.0),
        device="NVIDIA H100 80GB HBM3",
        backend="cuda",
        genesis_version="1.4.5",
        cpu_pct=131.0,
        memory_rss_mib=6144.0,
        gpu_util_mean_pct=96.4,
        memory_peak_mib=30925.0,
        power_mean_w=608.0,
        energy_j=1_430_000.0,
    )


def snapshot(**changes: Any) -> Snapshot:
    """Four workers that run; `changes` are made to the first."""
    workers = [worker(index, slot) for index, slot in enumerate(SLOTS)]
    workers[0] = changed(workers[0], **changes)
    return Snapshot(NOW, 2400.0, tuple(workers), tuple(sample(index) for index in range(4)))


def details(slot: str = "gpu0") -> Details:
    """The details that the engine returns beside the snapshot."""
    index = int(slot[3:])
    first = reached(1, ("-B", "2048", "-e", f"run-{index}"), rate(13_020_115.0), 2048, 71.0, 17010.0, 455.0)
    second = reached(2, ("-B", "4096", "-e", f"run-{index}"), rate(24_013_029.0), 4096, 97.0, 30925.0, 612.0)
    return Details(
        slot=slot,
        command=("/home/ada/venv/bin/python", "franka.py", "-B", "4096", "-e", f"run-{index}", "--seed", "1"),
        cwd="/home/ada/sim",
        env={
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": str(index),
            "EGL_DEVICE_ID": str(index),
            "GMG_WORKER_INDEX": str(index),
            "GMG_NUM_WORKERS": "4",
            "PYTHONUNBUFFERED": "1",
        },
        unset=("DISPLAY", "LOCAL_RANK"),
        egl=f"EGL device {index} is the card, by EGL_CUDA_DEVICE_NV",
        attempts=(
            changed(
                first,
                pid=5100,
                started=NOW - 2400,
                ended=NOW - 2360,
                exit_code=-2,
                state=WorkerState.STOPPED,
                reason="stopped by a person",
            ),
            changed(second, pid=5200, started=NOW - 2352, state=WorkerState.RUNNING),
        ),
        processes=(
            GpuProcess(5200, "python", 30100.0, "ada", "/home/ada/venv/bin/python franka.py -B 4096", 2352.0, slot),
            GpuProcess(811, "Xorg", 96.0, "root", "/usr/lib/xorg/Xorg :0", 864_000.0),
            GpuProcess(7_340_112, "python", None, None, None, None),
        ),
        args=ARGS,
        extra_env={"GS_CACHE": "/tmp/cache-{i}"},
    )


def series(slot: str = "gpu0") -> Series:
    """Forty minutes: a compilation, two thousand environments, an edit, four thousand."""
    steps = range(600)
    slow = [0.55 if 30 <= step < 180 else 1.0 if step >= 220 else None for step in steps]
    wave = [1 + 0.03 * math.sin(step / 7) for step in steps]
    return Series(
        slot,
        NOW,
        4.0,
        tuple(s and 24.0e6 * s * w for s, w in zip(slow, wave, strict=True)),
        tuple(97.0 * w * s if s else 3.0 for s, w in zip(slow, wave, strict=True)),
        tuple(30925.0 * s if s else 1200.0 for s in slow),
        tuple(612.0 * s * w if s else 118.0 for s, w in zip(slow, wave, strict=True)),
    )


def engine(**changes: Any) -> FakeEngine:
    """An engine on four GPUs; `changes` are made to the first worker."""
    made = FakeEngine(GPU_SESSION, snapshot(**changes), recent=tuple(series(slot) for slot in SLOTS))
    made.details_of = {slot: details(slot) for slot in SLOTS}
    return made


def cpu_engine() -> FakeEngine:
    """An engine on two shares of the CPU."""
    workers = tuple(
        msgspec.structs.replace(worker(index, slot.name), device="CPU", backend="cpu")
        for index, slot in enumerate(CPU_SESSION.slots)
    )
    whole = tuple(Series(worker.slot, NOW, 4.0, series().fps) for worker in workers)
    return FakeEngine(CPU_SESSION, Snapshot(NOW, 2400.0, workers), recent=whole)


def app(of: FakeEngine | None = None, *, theme: str = "dark", ascii_only: bool = False) -> FakedApp:
    """The interface on `of`."""
    return play.app_of(of or engine(), theme=theme, ascii_only=ascii_only)


async def write(pilot: Pilot[Any], text: str) -> None:
    """Type `text`."""
    await pilot.press(*text)
    await pilot.pause()


async def click(pilot: Pilot[Any], text: str) -> None:
    """Click the first place where `text` stands on the screen."""
    for y, row in enumerate(play.screen(pilot.app)):
        if text in row:
            await pilot.click(offset=(row.index(text) + len(text) // 2, y))
            await pilot.pause()
            return
    raise AssertionError(f"{text!r} is not on the screen")


def asked(of: FakeEngine) -> list[tuple[object, ...]]:
    """Requests that change something."""
    return [request for request in of.asked if request[0] not in {"follow", "details", "series"}]
