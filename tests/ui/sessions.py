"""Realistic sessions at fixed moments."""

import functools
import math
from typing import Any, TypeVar

import msgspec

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
from tests.workers import alerts, changed, diagnosed, reached, worker_of

NOW = 1_795_244_467.0
ARGS = ("-B", "4096", "--seed", "7")
EDITED = ("-B", "4096", "-e", "run-{i}", "--seed", "{seed}")
"""The arguments of a worker of `edited_snapshot`, without placeholders filled in."""
EVIL = "\x1b]0;owned\x07\x1b[31m[/] [bold] [/tmp/x] \u202e"
"""Text that sets a title and colours, and markup, where it is not escaped."""
FULL_MIB = 81559.0

_S = TypeVar("_S", bound=msgspec.Struct)


def session(gpus: int = 8, *, cpus: int = 0, name: str = "franka-1") -> Session:
    """A session on `gpus` H100 GPUs, or on `cpus` shares of the CPU."""
    gpu_slots = tuple(
        Slot(
            f"gpu{i}",
            Gpu(i, f"GPU-{i:08d}", "NVIDIA H100 80GB HBM3", f"00000000:{i:02X}:00.0", 81559, 700.0, persistence=True),
        )
        for i in range(gpus)
    )
    shares = tuple(Slot(f"cpu{i}") for i in range(cpus))
    spec = RunSpec(
        name=name,
        folder=f"/home/me/.local/state/gmg-tui/sessions/{name}",
        socket=f"/run/user/1000/gmg-tui/{name}.sock",
        script="franka.py",
        args=("-B", "4096"),
        cwd="/home/me/sim",
        python="/opt/venv/bin/python",
    )
    return Session(spec, gpu_slots + shares, engine_pid=4711, started=NOW - 2467, version="1.0.0")


def fps_line(i: int, fps: float) -> str:
    return f"[Genesis] [07:41:{i % 60:02d}] [INFO] Running at {fps:,.2f} FPS ({fps / 4096:.2f} FPS per env, 4096 envs)."


def running(i: int, *, second: float = 0.0) -> Worker:
    fps = 24_013_029.0 + 87_842 * i + 31_337 * math.sin(second + i)
    return _worker(
        i,
        WorkerState.RUNNING,
        2352.0 - i,
        Phase.RUNNING,
        pid=50_000 + i,
        fps=Fps(last=fps, mean=23_900_000.0, max=24_300_000.0, samples=47_000, settled=fps),
        n_envs=4096,
        device="NVIDIA H100 80GB HBM3",
        backend="cuda",
        genesis_version="1.4.5",
        cpu_pct=99.0,
        memory_rss_mib=4211.0,
        last_line=fps_line(int(second), fps),
        log_lines=47_310,
        gpu_util_mean_pct=97.0,
        memory_peak_mib=30_940.0,
        power_mean_w=611.0,
    )


def sample(i: int, *, second: float = 0.0, busy: bool = True) -> GpuSample:
    wave = math.sin(second * 1.7 + i)
    return GpuSample(
        uuid=f"GPU-{i:08d}",
        gpu_util_pct=round(97 + 2 * wave) if busy else 0.0,
        memory_util_pct=61.0 if busy else 0.0,
        memory_used_mib=30_940.0 + i if busy else 612.0,
        memory_total_mib=FULL_MIB,
        temperature_c=round(61 + wave) if busy else 33.0,
        power_w=612.0 + 6 * wave if busy else 71.0,
        power_limit_w=700.0,
        sm_clock_mhz=1980.0 if busy else 345.0,
        sm_clock_max_mhz=1980.0,
        throttle=(),
        energy_j=1e6,
    )


@functools.cache
def recent(slots: int, seconds: int = 300, name: str = "gpu", top: float = 24e6) -> tuple[Series, ...]:
    """The minutes before `NOW`: a start-up, then full speed."""
    return tuple(
        Series(
            slot=f"{name}{i}",
            end=NOW,
            step_s=1.0,
            fps=tuple(
                None if s < 30 else top * (1 - 0.9 * math.exp(-(s - 30) / 60)) * (1 + 0.04 * math.sin(s / 7 + i))
                for s in range(seconds)
            ),
            gpu_util_pct=tuple(
                max(0.0, min(100.0, (5 if s < 30 else 92) + 8 * math.sin(s / 5 + i))) for s in range(seconds)
            ),
            memory_used_mib=(30_000.0,) * seconds,
            power_w=(600.0,) * seconds,
        )
        for i in range(slots)
    )


def busy_snapshot(gpus: int = 8, second: float = 0.0) -> Snapshot:
    return Snapshot(
        time=NOW + second,
        elapsed_s=2467.0 + second,
        workers=tuple(running(i, second=second) for i in range(gpus)),
        samples=tuple(sample(i, second=second) for i in range(gpus)),
        clients=1,
    )


def _worker(i: int, state: WorkerState, for_s: float, phase: Phase | None = None, **fields: Any) -> Worker:
    """The worker on `gpu<i>`, which has been in a state, and its phase, for so many seconds of its first attempt."""
    if phase is not None:
        fields = {"phase": phase, "phase_since": NOW - for_s} | fields
    fields = {"args": ARGS, "attempt": 1, "attempt_started": NOW} | fields
    return worker_of(slot=f"gpu{i}", index=i, state=state, state_since=NOW - for_s, **fields)


_COMPILING = "[Genesis] [07:38:46] [INFO] Compiling simulation kernels..."


def varied_snapshot(second: float = 0.0) -> Snapshot:
    """Eight GPUs in nearly every state."""
    throttled = GpuSample(
        uuid="GPU-00000001",
        gpu_util_pct=99.0,
        memory_used_mib=79_800.0,
        memory_total_mib=FULL_MIB,
        temperature_c=87.0,
        power_w=699.0,
        power_limit_w=700.0,
        sm_clock_mhz=1410.0,
        sm_clock_max_mhz=1980.0,
        throttle=("power cap", "thermal"),
    )
    edited = changed(
        running(1, second=second),
        fps=Fps(last=21_400_000.0, mean=24_910_400.0, max=25_000_000.0, samples=900, settled=24_910_400.0),
        n_envs=16_384,
        args=("-B", "16384"),
        attempt=2,
        memory_peak_mib=79_800.0,
        progress=Progress(312, 1500, "iteration", eta_s=1188.0),
    )
    compiling = _worker(
        2,
        WorkerState.COMPILING,
        161.0,
        Phase.COMPILING,
        phase_usual_s=250.0,
        pid=50_002,
        cpu_pct=100.0,
        memory_rss_mib=3010.0,
        last_line=_COMPILING,
        log_lines=31,
    )
    failed = _worker(
        3,
        WorkerState.FAILED,
        1204.0,
        attempt=4,
        exit_code=1,
        reason="CUDA out of memory: 61.4 GiB more were asked for, 12.1 GiB were free",
        advice="fewer environments: e, then a smaller -B",
        last_line="RuntimeError: CUDA out of memory.",
        log_lines=212,
    )
    stuck = _worker(
        4,
        WorkerState.COMPILING,
        874.0,
        Phase.COMPILING,
        pid=50_004,
        alerts=alerts(stuck=f"no output, no CPU time for {74 + second:.0f} s"),
        last_line=_COMPILING.replace("07:38:46", "07:26:53"),
        log_lines=31,
    )
    stopping = _worker(
        5,
        WorkerState.STOPPING,
        4.0,
        Phase.SAVING,
        pid=50_005,
        stopping="SIGINT sent, SIGTERM in 11 s",
        fps=Fps(last=23_100_000.0, mean=23_000_000.0, max=23_800_000.0, samples=400, settled=23_100_000.0),
        n_envs=4096,
        last_line="[Genesis] [07:41:03] [INFO] 💤 Exiting Genesis and caching compiled kernels...",
        log_lines=9000,
    )
    restarting = _worker(
        6,
        WorkerState.RESTARTING,
        2.0,
        attempt=2,
        restart_at=NOW + 6.0,
        reason="the kernel cache was being written by another worker",
        last_line="EOFError: Ran out of input",
        log_lines=77,
    )
    lost = GpuSample(uuid="GPU-00000007", lost=True, error="GPU is lost (Xid 79)")
    workers = (
        running(0, second=second),
        edited,
        compiling,
        failed,
        stuck,
        stopping,
        restarting,
        running(7, second=second),
    )
    samples = (
        sample(0, second=second),
        throttled,
        *(sample(i, busy=False) for i in (2, 3, 4)),
        sample(5),
        sample(6, busy=False),
        lost,
    )
    return Snapshot(
        time=NOW + second,
        elapsed_s=2467.0 + second,
        workers=tuple(diagnosed(*each, NOW + second) for each in zip(workers, samples, strict=True)),
        samples=samples,
        clients=2,
    )


def ended_snapshot() -> Snapshot:
    finished = [
        _worker(
            i,
            WorkerState.FINISHED,
            12.0 + i,
            args=(),
            exit_code=0,
            fps=Fps(24_013_029.0 + 87_842 * i, 23_900_000.0, 24_300_000.0, 47_000, settled=24_013_029.0 + 87_842 * i),
            n_envs=4096,
            last_line="[Genesis] [07:41:07] [INFO] 💤 Exiting Genesis and caching compiled kernels...",
            log_lines=47_310,
        )
        for i in range(8)
    ]
    reason = "RuntimeError: nan in the velocities of entity 3"
    finished[3] = changed(finished[3], state=WorkerState.FAILED, exit_code=1, reason=reason)
    samples = tuple(sample(i, busy=False) for i in range(8))
    return Snapshot(time=NOW, elapsed_s=2467.0, workers=tuple(finished), samples=samples, clients=1)


def cpu_snapshot() -> Snapshot:
    first = _worker(
        0,
        WorkerState.RUNNING,
        61.0,
        Phase.RUNNING,
        args=(),
        pid=812,
        fps=Fps(12_795.0, 12_900.0, 14_100.0, 310, settled=14_047.31),
        n_envs=16,
        cpu_pct=187.0,
        memory_rss_mib=1903.0,
        last_line=fps_line(7, 14_047.31),
        log_lines=340,
        backend="cpu",
    )
    second = worker_of("cpu1", 1, WorkerState.WAITING, NOW - 61.0, reason="for cpu0 to fill the kernel cache")
    return Snapshot(time=NOW, elapsed_s=94.0, workers=(changed(first, slot="cpu0"), second), clients=1)


@functools.cache
def log_of(lines: int) -> tuple[str, ...]:
    """What a Genesis worker prints: a start-up, a warning, then progress."""
    head = (
        "[Genesis] [07:00:02] [INFO] ╭───────────────────────────────────────────────╮",
        "[Genesis] [07:00:02] [INFO] │┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈ Genesis ┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈┉┈│",
        "[Genesis] [07:00:02] [INFO] ╰───────────────────────────────────────────────╯",
        "[Genesis] [07:00:03] [INFO] Running on [NVIDIA H100 80GB HBM3] with backend gs.cuda. Device memory: 79.65 GB.",
        "[Genesis] [07:00:03] [INFO] 🚀 Genesis initialized. 🔖 version: 1.4.5, 🎨 theme: dark, 🌱 seed: None",
        "[Genesis] [07:00:26] [INFO] Building scene <4bc769b>...",
        "[Genesis] [07:00:34] [WARNING] Neutral robot position (qpos0) exceeds joint limits.",
        "[Genesis] [07:01:00] [INFO] Compiling simulation kernels...",
    )
    return (*head, *(fps_line(i, 24e6 + 1e5 * math.sin(i)) for i in range(lines - len(head))))


# Workers in their second attempt


def gpu(i: int) -> Gpu:
    made = session(i + 1).slots[i].gpu
    assert made is not None
    return made


def edited_worker(i: int) -> Worker:
    """A worker in its second attempt, with twice the environments of the first."""
    now = reached(2, ("-B", "4096", "-e", f"run-{i}"), rate(24_200_311.0), 4096, 97.0, 30925.0, 612.0)
    return changed(
        running(i),
        args=now.args,
        attempt=2,
        pid=5200 + i,
        fps=Fps(24_200_311.0, 23_950_114.0, 24_410_777.0, 812, 24_013_029.0),
        progress=Progress(412.0, 1000.0, "iteration", 3340.0),
        cpu_pct=131.0,
        energy_j=1_430_000.0,
    )


def edited_snapshot(**changes: Any) -> Snapshot:
    """Four workers that run on GPUs at their power cap, without a fan; `changes` are made to the first."""
    more = {"throttle": ("power cap",), "sm_clock_mhz": 1755.0, "pcie_rx_mib_s": 312.0, "pcie_tx_mib_s": 4.5}
    samples = tuple(changed(sample(i), energy_j=91_263_000.0, **more) for i in range(4))
    workers = tuple(edited_worker(i) for i in range(4))
    return Snapshot(NOW, 2400.0, (changed(workers[0], **changes), *workers[1:]), samples)


def details(slot: str = "gpu0") -> Details:
    """What the engine knows of an `edited_worker` beside the snapshot."""
    index = int(slot[3:])
    first = reached(1, ("-B", "2048", "-e", f"run-{index}"), rate(13_020_115.0), 2048, 71.0, 17010.0, 455.0)
    second = reached(2, ("-B", "4096", "-e", f"run-{index}"), rate(24_013_029.0), 4096, 97.0, 30925.0, 612.0)
    ended = {"started": NOW - 2400, "ended": NOW - 2360, "exit_code": -2, "reason": "stopped by a person"}
    return Details(
        slot=slot,
        command=("/opt/venv/bin/python", "franka.py", "-B", "4096", "-e", f"run-{index}", "--seed", "1"),
        cwd="/home/me/sim",
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
            changed(first, pid=5100, state=WorkerState.STOPPED, **ended),
            changed(second, pid=5200, started=NOW - 2352, state=WorkerState.RUNNING),
        ),
        processes=(
            GpuProcess(5200, "python", 30100.0, "me", "/opt/venv/bin/python franka.py -B 4096", 2352.0, slot),
            GpuProcess(811, "Xorg", 96.0, "root", "/usr/lib/xorg/Xorg :0", 864_000.0),
            GpuProcess(7_340_112, "python", None, None, None, None),
        ),
        args=EDITED,
        extra_env={"GS_CACHE": "/tmp/cache-{i}"},
    )


def edited_series(slot: str = "gpu0") -> Series:
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
