"""The verdict on a worker's bottleneck: an ordered table of pure functions of its facts.

A verdict is certain only if no other cause explains the facts equally well. The GPU is judged first: while it is busy, time
outside steps may be spent waiting for its kernels.
"""

from collections.abc import Callable
from pathlib import PurePath

from gmg_tui.diagnosis.figures import coreless_pct, evidence, load_of, pct, sample_of
from gmg_tui.model import GpuHealth, Phase, SpeedFacts, Verdict, WorkerState, units

_BUSY_PCT, _IDLE_PCT = 90.0, 60.0
"""GPU utilisation above which the GPU bounds the speed, and below which it certainly does not."""
_LOW_SM_PCT = 40.0
"""Percentage of busy SMs below which a busy GPU runs small kernels."""
_MAJORITY_PCT, _SURE_PCT = 50.0, 60.0
"""Shares of the time above which an activity is the cause, and above which that is certain."""
_FEW_ENVS = 64
_USUAL_THROTTLES = frozenset({"power cap", "sync boost", "display clock"})
_POWER = frozenset({"power brake", "board limit", "reliability"})
_LANE_MIB_S = (0, 238, 477, 939, 1878, 3756, 7512)
"""Bandwidth of a PCIe lane, by generation."""
_SCRIPT_TEXT = "host-bound: {share} of each step is the script, not the simulator"
_WAIT_PHRASES = {
    "sleep": "sleeps",
    "message": "waits for another process, a socket or an event",
    "child": "waits for a child process",
    "lock": "waits for another thread",
    "terminal": "waits for input",
    "driver": "waits for a driver",
}
_FUNCTION_KINDS = (
    ("rendering", ("render", "draw", "imshow", "imwrite")),
    ("learning", ("learn", "train", "backward", "optimi", "update_policy", "policy_update")),
)


def _gpu_below(facts: SpeedFacts, pct: float) -> bool:
    """Returns True if the GPU is less busy than `pct`, or there is none."""
    return facts.gpu_util_pct is None or facts.gpu_util_pct < pct


def _largest_share(facts: SpeedFacts) -> tuple[str, float]:
    """Returns the name of the largest share of the time, empty if unknown, and the share in percent."""
    parts = facts.shares.parts.items() if facts.shares is not None else ()
    return max(parts, key=lambda part: part[1], default=("", 0.0))


def _script_decides(facts: SpeedFacts) -> bool:
    """Returns True if the script leaves the GPU idle, whatever else slows it down."""
    return facts.shares is not None and facts.shares.simulator < 100 - _SURE_PCT and _gpu_below(facts, _IDLE_PCT)


def _cores(number: float) -> str:
    return f"{number:g} core{'' if number == 1 else 's'}"


# Not running


def _state(facts: SpeedFacts) -> Verdict | None:
    if facts.state.undisturbed:
        return None
    advice = facts.recorded.advice if facts.recorded is not None else ""
    return Verdict(
        facts.state.value, f"{facts.state.value}{f': {facts.reason}' if facts.reason else ''}", advice=advice
    )


def _stopped(facts: SpeedFacts) -> Verdict | None:
    if not load_of(facts).stopped:
        return None
    return Verdict("stopped", "stopped by a signal or a debugger", advice="kill -CONT continues it")


def _starting(facts: SpeedFacts) -> Verdict | None:
    if facts.state is WorkerState.RUNNING and facts.phase is not Phase.SAVING:
        return None
    phase = facts.phase.value or facts.state.value
    usual_s = facts.phase_usual_s
    usual = f", usually {units.span(usual_s)}" if usual_s is not None and usual_s >= 1 else ""
    kind = "ending" if facts.phase is Phase.SAVING else "starting"
    text = f"{kind}: {phase} for {units.span(facts.phase_s)}{usual}"
    late = usual_s is not None and facts.phase_s > 3 * max(usual_s, 10.0)
    return Verdict(
        kind, text, advice="far longer than usual; its stacks (why --stacks) show where it is" if late else ""
    )


def _misplaced(facts: SpeedFacts) -> Verdict | None:
    if facts.misplaced is None:
        return None
    return Verdict(
        "device", f"on the wrong device: {facts.misplaced}", advice="check the backend that the script chooses"
    )


def _rank(facts: SpeedFacts) -> Verdict | None:
    if facts.waits_for is None:
        return None
    text, advice = f"waiting for {facts.waits_for}", "look at the verdict on that rank"
    return Verdict("rank", text, certain=False, advice=advice)


# The machine


def _swap(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    faults, traffic = load.major_faults_per_s or 0.0, load.swapped_mib_per_s or 0.0
    if faults < 50 or traffic < 1 or (load.swap_mib or 0.0) < 16:
        return None
    text = f"swapping: {faults:,.0f} pages/s read back, {units.mib(load.swap_mib)} of its memory in swap"
    return Verdict("swap", text, certain=faults >= 200, advice="use less RAM, or fewer workers")


def _quota(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    if load.quota is None or load.throttled_pct is None or not _gpu_below(facts, _BUSY_PCT):
        return None
    lost = coreless_pct(facts)
    used_pct = (load.cpu_pct or 0.0) / load.quota
    if load.throttled_pct < 25 or used_pct < 70 or lost < 10:
        return None
    text = f"CPU quota: paused in {pct(load.throttled_pct)} of the periods, with {_cores(load.quota)} allowed"
    certain = load.throttled_pct >= 50 and lost >= 20
    return Verdict(
        "quota", text, certain, advice="allow more cores (docker --cpus, Slurm --cpus-per-task), or fewer threads"
    )


def _io(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    waits = load.waits_pct.get("file", 0.0) + load.waits_pct.get("disk", 0.0)
    if waits < 40 or not _gpu_below(facts, _BUSY_PCT):
        return None
    file = f" in {load.file}" if load.file else ""
    rate = f", reading {load.read_mib_per_s:.1f} MiB/s" if load.read_mib_per_s else ""
    text = f"waiting for I/O: {pct(waits)} of the time{file}{rate}"
    return Verdict("io", text, certain=waits >= _SURE_PCT, advice="use a faster disk, or read ahead in another process")


def _stuck(facts: SpeedFacts) -> Verdict | None:
    if facts.stuck is None:
        return None
    return Verdict("stuck", f"stuck: {facts.stuck}", advice="its stacks (why --stacks) show where it is; r restarts it")


def _threads(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    if load.cores is None or load.ready is None or load.threads is None or not _gpu_below(facts, _BUSY_PCT):
        return None
    if facts.state is not WorkerState.RUNNING and facts.phase is not Phase.BUILT:  # imports and compilers use many
        return None
    cores, lock = _cores(load.cores), load.waits_pct.get("lock", 0.0)
    advice = "set OMP_NUM_THREADS, or the number of the script's threads, to the cores"
    waits = max(coreless_pct(facts), lock)
    if load.ready >= max(1.5 * load.cores, load.cores + 1) and waits >= 20:
        text = f"too many threads: {load.ready:.0f} want to run on {cores}, and the main thread waits {pct(waits)} of the time"
        return Verdict("threads", text, load.ready >= 2.5 * load.cores and waits >= 30, advice=advice)
    is_gil = load.threads >= 4 * max(2.0, load.cores) and lock >= 40 and 70 <= (load.cpu_pct or 0.0) <= 140
    if is_gil:
        text = f"too many threads: {load.threads} take turns (Python runs one at a time), the main thread waits {pct(lock)} of the time"
        return Verdict("threads", text, certain=False, advice="use processes, or fewer threads")
    return None


def _throttled(facts: SpeedFacts) -> Verdict | None:
    sample = sample_of(facts)
    reasons = [reason for reason in sample.throttle or () if reason not in _USUAL_THROTTLES]
    clock, full = sample.sm_clock_mhz, sample.sm_clock_max_mhz
    is_slow = clock and full and clock < 0.6 * full and not _gpu_below(facts, _IDLE_PCT)
    capped = "power cap" in (sample.throttle or ()) and is_slow
    if (not reasons and not capped) or _gpu_below(facts, 20) or _script_decides(facts):
        return None
    by_power = not reasons or _POWER.issuperset(reasons)
    at = f", {clock:,.0f} of {full:,.0f} MHz" if clock and full else ""
    heat = f", {sample.temperature_c:.0f} °C" if sample.temperature_c is not None and not by_power else ""
    text = f"throttled by {'power' if by_power else 'heat'}: {', '.join(reasons) or 'power cap'}{at}{heat}"
    certain = bool(reasons) and not _gpu_below(facts, _IDLE_PCT)
    return Verdict(
        "throttled", text, certain, advice="raise the power limit" if by_power else "check cooling and airflow"
    )


def _shared(facts: SpeedFacts) -> Verdict | None:
    if not facts.sharers or _gpu_below(facts, 40) or _script_decides(facts):
        return None
    text = f"slowed by others on its GPU: {', '.join(facts.sharers[:3])}; together they keep it busy {pct(facts.gpu_util_pct)} of the time"
    return Verdict("shared", text, certain=False, advice="move one of them to another GPU")


# Shares of the time


def _rendering(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "rendering" or share < 40:
        return None
    text = f"rendering-bound: {pct(share)} of the time is spent on rendering"
    return Verdict("rendering", text, share >= _MAJORITY_PCT, advice="render less often, smaller, or fewer cameras")


def _learning(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "learning" or share < 40:
        return None
    text = f"learning-bound: {pct(share)} of the time is spent on learning, without steps"
    return Verdict(
        "learning", text, share >= _MAJORITY_PCT, advice="use larger minibatches, fewer epochs, or a smaller network"
    )


def _pcie_mib_s(facts: SpeedFacts) -> float:
    """Returns the PCIe traffic in the busier direction; 0 if unknown."""
    sample = sample_of(facts)
    return max(sample.pcie_rx_mib_s or 0.0, sample.pcie_tx_mib_s or 0.0)


def _pcie(facts: SpeedFacts) -> Verdict | None:
    health, rate = sample_of(facts).health or GpuHealth(), _pcie_mib_s(facts)
    gen, width = health.pcie_gen, health.pcie_width
    if not gen or not width or not 0 < gen < len(_LANE_MIB_S):
        return None
    share = 100 * rate / (_LANE_MIB_S[gen] * width)
    if share < 50 or not _gpu_below(facts, _BUSY_PCT):
        return None
    slower = (gen, width) != (health.pcie_gen_max or gen, health.pcie_width_max or width)
    link = f"generation {gen}, {width} lanes" + (
        f" of {health.pcie_gen_max}, {health.pcie_width_max}" if slower else ""
    )
    text = f"PCIe-bound: {rate:,.0f} MiB/s use {pct(share)} of the link ({link})"
    advice = "check the slot and the BIOS: the card can do more" if slower else "keep tensors on the GPU"
    return Verdict("pcie", text, certain=share >= 75, advice=advice)


def _gpu_limit(facts: SpeedFacts) -> Verdict | None:
    if facts.gpu_util_pct is None or facts.gpu_util_pct < _BUSY_PCT:
        return None
    util = pct(facts.gpu_util_pct)
    if facts.sm_pct is not None and facts.sm_pct < _LOW_SM_PCT:
        text = f"launch-bound: a kernel always runs ({util}), on {pct(facts.sm_pct)} of the SMs"
        return Verdict("simulator", text, certain=False, advice=_more_envs(facts))
    text = f"GPU-bound: {util}; this is what the card can do"
    below = facts.tuned_envs is not None and facts.n_envs is not None and facts.n_envs < 0.8 * facts.tuned_envs
    return Verdict("limit", text, facts.gpu_util_pct >= 95, advice=_more_envs(facts) if below else "")


def _has_few_envs(facts: SpeedFacts) -> bool:
    return facts.n_envs is not None and facts.n_envs <= _FEW_ENVS


def _more_envs(facts: SpeedFacts) -> str:
    if facts.tuned_envs is not None and (facts.n_envs or 0) < facts.tuned_envs:
        return f"raise n_envs; tune found {facts.tuned_envs:,}"
    return "raise n_envs: gmg-tui tune finds the best number"


def _script(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "script" or share < _MAJORITY_PCT:
        return None
    load, spot, text = load_of(facts), facts.hot_spot, _SCRIPT_TEXT.format(share=pct(share))
    kind, advice = "script", "vectorise it, or raise n_envs (fewer, larger steps)"
    certain = share >= _SURE_PCT and _gpu_below(facts, _IDLE_PCT)
    wait, wait_pct = max(load.waits_pct.items(), key=lambda item: item[1], default=("", 0.0))
    if wait in _WAIT_PHRASES and wait_pct >= 0.5 * share and (load.main_cpu_pct or 0.0) < 60:
        text += f", which {_WAIT_PHRASES[wait]}"
        advice = "remove the sleep" if wait == "sleep" else "its stacks (why --stacks) show where it waits"
        certain = certain and wait != "driver"
    if spot is not None and spot.share_pct >= 40:
        kind = next(
            (kind for kind, names in _FUNCTION_KINDS if any(word in spot.function.lower() for word in names)), kind
        )
        advice = f"look at {spot.function} ({PurePath(spot.file).name}:{spot.line}): {advice}"
        if kind != "script":
            return Verdict(
                kind, f"{kind}-bound: {pct(share)} of each step is in {spot.function}", certain=False, advice=advice
            )
    return Verdict(kind, text, certain, advice=advice)


def _numa(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    busy = (load.main_cpu_pct or 0.0) >= 60 or _pcie_mib_s(facts) >= 1000
    is_remote = bool(facts.remote_cpus) and set(facts.remote_cpus) == set(load.cpus)
    if not is_remote or not busy or not _gpu_below(facts, _BUSY_PCT):
        return None
    text = f"on the wrong NUMA node: its GPU is on node {facts.numa_node}, its CPUs ({_numbers(load.cpus)}) are not"
    return Verdict(
        "numa", text, certain=False, advice=f"numactl --cpunodebind={facts.numa_node} --membind={facts.numa_node}"
    )


def _numbers(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus[:4])) + (" …" if len(cpus) > 4 else "")


def _no_core(facts: SpeedFacts) -> Verdict | None:
    lost = coreless_pct(facts)
    if lost < _MAJORITY_PCT or not _gpu_below(facts, _IDLE_PCT) or (_has_few_envs(facts) and facts.shares is not None):
        return None
    text = f"short of CPU: the main thread is ready but gets no core {pct(lost)} of the time; other processes use them"
    return Verdict(
        "cpu", text, certain=False, advice="run fewer processes on this machine, or give it cores of its own"
    )


def _simulator(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "simulator" or share < _MAJORITY_PCT or not _gpu_below(facts, _BUSY_PCT):
        return None
    load = load_of(facts)
    envs = f" with {units.count(facts.n_envs, 'environment')}" if facts.n_envs else ""
    full = load.cores is not None and load.cores >= 1.5 and (load.cpu_pct or 0.0) >= 85 * load.cores
    if facts.has_gpu or _has_few_envs(facts):
        idle = "GPU" if facts.has_gpu else "cores"
        text = (
            f"host-bound: {pct(share)} of the time is the simulator's own host code{envs}, too few to fill the {idle}"
        )
        lost = coreless_pct(facts)
        busy = (load.main_cpu_pct or 0.0) + lost >= 60 and lost < _MAJORITY_PCT
        is_idle = _gpu_below(facts, 50) and (not facts.has_gpu or facts.gpu_util_pct is not None)
        return Verdict(
            "simulator", text, share >= _SURE_PCT and busy and is_idle and not full, advice=_more_envs(facts)
        )
    used = f", on {(load.cpu_pct or 0.0) / 100:.1f} of {_cores(load.cores)}" if load.cores is not None else ""
    text = f"CPU-bound: {pct(share)} of the time is the simulator's{envs}{used}"
    advice = "" if full else "give it more threads, or run it on a GPU"
    return Verdict("limit", text, full and facts.n_envs is not None, advice=advice)


def _host(facts: SpeedFacts) -> Verdict | None:
    """Returns the cause if no steps are counted."""
    load = load_of(facts)
    if facts.shares is not None or facts.gpu_util_pct is None or not _gpu_below(facts, _IDLE_PCT):
        return None
    gpu = f"GPU {pct(facts.gpu_util_pct)}"
    if (load.main_cpu_pct or 0.0) >= 80:
        text = f"host-bound: the main thread takes {pct(load.main_cpu_pct)} of a core, {gpu}"
        return Verdict(
            "host", text, certain=False, advice="its stacks (why --stacks) show where; nothing counts its steps"
        )
    if (sleeps := load.waits_pct.get("sleep", 0.0)) >= _SURE_PCT:
        text = f"host-bound: the script sleeps {pct(sleeps)} of the time, {gpu}"
        return Verdict("script", text, certain=False, advice="remove the sleep")
    return None


TABLE: tuple[Callable[[SpeedFacts], Verdict | None], ...] = (
    *(_state, _stopped, _misplaced, _swap, _quota, _io, _threads, _rank, _stuck, _starting),
    *(_throttled, _shared, _rendering, _learning, _pcie, _gpu_limit, _script, _numa, _no_core, _simulator, _host),
)
"""The functions in order of precedence: the first verdict wins."""


def judge(facts: SpeedFacts) -> Verdict:
    """Returns the verdict with its figures; `unknown` if no cause fits the facts."""
    found = next(
        filter(None, (find(facts) for find in TABLE)), Verdict("unknown", "unknown: the facts fit no single cause")
    )
    text = found.text if found.certain else f"probably {found.text}"
    return Verdict(found.kind, text, found.certain, tuple(evidence(facts)), found.advice)
