"""Verdicts on a worker's speed from facts: the right one, in words that are as sure as the facts."""

from typing import Any

import pytest
from msgspec import Struct, structs

from gmg_tui.diagnosis.figures import find_hot_spot
from gmg_tui.diagnosis.verdicts import TABLE, judge
from gmg_tui.model import GpuHealth, GpuSample, HotSpot, Load, Phase, Shares, SpeedFacts, WorkerState

_LOAD = Load(
    main_cpu_pct=99.0, main_delay_pct=0.5, ready_pct=100.0, cpu_pct=104.0, ready=1.1, threads=30, cores=16.0, cpus=(1,)
)
_FACTS = SpeedFacts(
    "gpu3", WorkerState.RUNNING, phase=Phase.RUNNING, n_envs=4096, load=_LOAD, has_gpu=True, gpu_util_pct=38.0
)
_SCRIPT, _SIMULATOR = Shares(29.0, 0.0, 0.0), Shares(95.0, 0.0, 0.0)


def _facts(**changes: Any) -> SpeedFacts:
    def of(kind: type[Struct]) -> dict[str, Any]:
        names = changes.keys() & {*kind.__struct_fields__} - {*SpeedFacts.__struct_fields__}
        return {name: changes.pop(name) for name in names}

    load, sample = structs.replace(_LOAD, **of(Load)), GpuSample("", **of(GpuSample), health=GpuHealth(**of(GpuHealth)))
    return structs.replace(_FACTS, load=load, sample=sample, **changes)


def _waits(**waits_pct: float) -> dict[str, Any]:
    return {"waits_pct": waits_pct, "main_cpu_pct": 5.0, "ready_pct": 5.0, "cpu_pct": 6.0, "ready": 0.1}


@pytest.mark.parametrize(
    ("kind", "text", "facts"),
    [
        ("script", "host-bound: 71 % of each step is the script, not the simulator", _facts(shares=_SCRIPT)),
        ("script", "which sleeps", _facts(shares=_SCRIPT, **_waits(sleep=70.0))),
        ("script", "which waits for another process", _facts(shares=_SCRIPT, **_waits(message=70.0))),
        ("simulator", "with 16 environments, too few to fill the GPU", _facts(shares=_SIMULATOR, n_envs=16)),
        ("limit", "GPU-bound: 97 %; this is what the card can do", _facts(shares=_SCRIPT, gpu_util_pct=97.0)),
        ("learning", "learning-bound: 60 % of the time", _facts(shares=Shares(25.0, 60.0, 0.0), gpu_util_pct=95.0)),
        ("rendering", "rendering-bound: 80 % of the time", _facts(shares=Shares(15.0, 0.0, 80.0))),
        ("quota", "paused in 80 % of the periods, with 1 core allowed", _facts(quota=1.0, cores=1.0, throttled_pct=80.0, main_cpu_pct=50.0)),
        ("threads", "64 want to run on 2 cores", _facts(shares=_SIMULATOR, cores=2.0, ready=64.0, threads=64, main_delay_pct=90.0)),
        ("numa", "its GPU is on node 1", _facts(remote_cpus=(1,), numa_node=1, gpu_util_pct=70.0)),
        ("pcie", "PCIe-bound: 800 MiB/s use 85 % of the link", _facts(pcie_tx_mib_s=800.0, pcie_gen=3, pcie_width=1)),
        ("throttled", "throttled by heat: thermal, 1,410 of 2,100 MHz", _facts(throttle=("thermal",), sm_clock_mhz=1410.0, sm_clock_max_mhz=2100.0, gpu_util_pct=92.0)),
        ("throttled", "throttled by power: power brake", _facts(throttle=("power brake",), gpu_util_pct=92.0)),
        ("rank", "waiting for rank 1", _facts(waits_for="rank 1 (gpu1), which is compiling kernels")),
        ("io", "waiting for I/O: 85 % of the time in /data/a.bin", _facts(file="/data/a.bin", **_waits(file=85.0))),
        ("io", "waiting for I/O: 90 %", _facts(stuck="no output for 80 s", **_waits(disk=90.0))),
        ("stuck", "stuck: no output for 80 s", _facts(stuck="no output for 80 s")),
        ("swap", "swapping: 900 pages/s", _facts(major_faults_per_s=900.0, swapped_mib_per_s=20.0, swap_mib=3000.0)),
        ("device", "on the wrong device", _facts(misplaced="it computes on the CPU", shares=_SIMULATOR)),
        ("stopped", "stopped by a signal", _facts(stopped=True)),
        ("finished", "finished", structs.replace(_FACTS, state=WorkerState.FINISHED)),
        ("starting", "compiling kernels for 1:14, usually 1:20", structs.replace(_FACTS, state=WorkerState.COMPILING, phase=Phase.COMPILING, phase_s=74.0, phase_usual_s=80.0)),
        ("stuck", "stuck: no output", structs.replace(_facts(stuck="no output for 80 s"), state=WorkerState.COMPILING)),
        ("io", "of the time in /nfs/a.py", structs.replace(_facts(file="/nfs/a.py", **_waits(file=85.0)), state=WorkerState.STARTING)),
        ("starting", "importing", structs.replace(_facts(cores=2.0, ready=64.0, main_delay_pct=90.0), state=WorkerState.STARTING, phase=Phase.IMPORTING)),
        ("limit", "on 15.9 of 16 cores", _facts(shares=_SIMULATOR, has_gpu=False, gpu_util_pct=None, cpu_pct=1590.0, ready=16.0)),
    ],
)  # fmt: skip
def test_the_cause_has_the_verdict(kind: str, text: str, facts: SpeedFacts) -> None:
    verdict = judge(facts)
    assert verdict.kind == kind, verdict
    assert text in verdict.text
    assert verdict.certain is ("probably" not in verdict.text)


@pytest.mark.parametrize(
    ("kinds", "facts"),
    [
        ({"unknown"}, SpeedFacts("gpu0", WorkerState.RUNNING)),
        ({"unknown"}, _facts(gpu_util_pct=75.0)),
        ({"host"}, _facts()),  # it may be the script, or the simulator
        ({"script"}, _facts(shares=_SCRIPT, gpu_util_pct=80.0)),  # it may wait for the GPU there
        ({"script"}, _facts(shares=Shares(45.0, 0.0, 0.0))),
        ({"simulator"}, _facts(gpu_util_pct=97.0, sm_pct=21.0)),
        ({"limit"}, _facts(gpu_util_pct=91.0)),
        ({"shared"}, _facts(sharers=("python (PID 7, 3.1 GiB)",), gpu_util_pct=98.0)),  # it may be idle
        ({"cpu"}, _facts(main_cpu_pct=40.0, main_delay_pct=60.0)),
        ({"simulator"}, _facts(shares=_SIMULATOR, has_gpu=False, gpu_util_pct=None, n_envs=4, cpu_pct=1590.0)),
        ({"limit"}, _facts(shares=_SIMULATOR, has_gpu=False, gpu_util_pct=None)),
        ({"simulator"}, _facts(shares=_SIMULATOR, n_envs=4, main_cpu_pct=40.0, main_delay_pct=60.0)),
        ({"threads"}, _facts(cores=2.0, threads=65, waits_pct={"lock": 95.0}, cpu_pct=100.0, gpu_util_pct=None)),
        ({"rendering"}, _facts(shares=_SCRIPT, hot_spot=HotSpot("render_views", "a.py", 3, 90.0, 20, 0.0))),
    ],
)  # fmt: skip
def test_facts_that_fit_other_causes_too_are_never_certain(kinds: set[str], facts: SpeedFacts) -> None:
    verdict = judge(facts)
    assert verdict.kind in kinds, verdict
    assert not verdict.certain or verdict.kind == "unknown"
    assert verdict.kind == "unknown" or verdict.text.startswith("probably ")


@pytest.mark.parametrize(
    "facts",
    [
        _facts(shares=_SIMULATOR, n_envs=16, throttle=("power cap",)),  # a card at full load always is
        _facts(shares=_SIMULATOR, n_envs=16, sharers=("python (PID 7, 3.1 GiB)",), gpu_util_pct=20.0),
        _facts(shares=_SIMULATOR, n_envs=16, quota=1.0, throttled_pct=90.0, main_cpu_pct=99.0),  # by some milliseconds
        _facts(shares=_SIMULATOR, n_envs=16, swap_mib=3000.0),  # what is there is not needed
        _facts(shares=_SIMULATOR, n_envs=16, remote_cpus=(9,)),  # another thread's
        _facts(shares=_SIMULATOR, n_envs=16, pcie_tx_mib_s=800.0, pcie_gen=5, pcie_width=16),
        _facts(shares=_SIMULATOR, n_envs=16, threads=400),
    ],
)
def test_what_costs_nothing_is_no_cause(facts: SpeedFacts) -> None:
    assert judge(facts).kind == "simulator"


def test_a_verdict_has_its_figures_and_what_tune_found() -> None:
    spot = HotSpot("compute_reward", "/home/me/train.py", 212, 44.0, 18, 10.0)
    verdict = judge(_facts(shares=_SCRIPT, hot_spot=spot, sm_pct=21.0, tuned_envs=8192))
    assert verdict.evidence[:5] == (
        "time: simulator 29 %, script 71 %",
        "main thread 99 % of a core",
        "GPU 38 % (SM 21 %)",
        "44 % of the script's time in compute_reward (train.py:212)",
        "4,096 environments (tuned: 8,192)",
    )
    assert verdict.advice.startswith("look at compute_reward (train.py:212): vectorise it")
    assert judge(_facts(gpu_util_pct=97.0, tuned_envs=8192)).advice == "raise n_envs; tune found 8,192"


def test_no_facts_at_all_have_no_verdict_and_no_row_raises() -> None:
    nothing = SpeedFacts("cpu0", WorkerState.RUNNING)
    assert [row(nothing) for row in TABLE] == [None] * len(TABLE)


_PROBE = '  File "/x/gmg_tui/scripts/probe/site/gmg_probe.py", line 170 in step\n'
_MAIN = '  File "/home/me/train.py", line 30 in <module>\n'


def _stack(*frames: str) -> str:
    return "".join(("Current thread 0x01 (most recent call first):\n", *frames, _MAIN))


def test_the_hot_spot_is_the_innermost_function_of_the_script_outside_of_steps() -> None:
    numpy = '  File "/v/lib/python3.11/site-packages/numpy/core.py", line 5 in sum\n'
    reward = '  File "/home/me/train.py", line {} in compute_reward\n'
    other = 'Thread 0x02 (most recent call first):\n  File "/home/me/loader.py", line 3 in wait\n\n'
    stacks = [
        *(other + _stack(numpy, reward.format(line)) for line in (212, 212, 214)),
        _stack(),
        *[_stack('  File "/v/genesis/scene.py", line 9 in step\n', _PROBE)] * 4,
    ]
    assert find_hot_spot("\n".join(stacks)) == HotSpot("compute_reward", "/home/me/train.py", 212, 75.0, 4, 50.0)
    assert find_hot_spot("\n".join(stacks[-4:])) is find_hot_spot("") is None
    named = find_hot_spot(f'Current thread 0x1:\n  File "/x.py", line 3 in {"a" * 10**6}\n')
    assert named is not None
    assert len(named.function) == 200
