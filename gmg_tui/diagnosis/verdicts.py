"""The verdict on a worker's bottleneck: an ordered table of pure functions of facts.

A verdict is certain only if no other cause explains the facts equally well. The GPU is judged before the script: while it is
busy, time outside steps may be spent waiting for its kernels.
"""

from collections.abc import Callable
from pathlib import PurePath

from gmg_tui.diagnosis.figures import coreless_pct, evidence, load_of, pct, sample_of
from gmg_tui.model import GpuHealth, Phase, SpeedFacts, Verdict, WorkerState, units

_BUSY_PCT, _IDLE_PCT = 90.0, 60.0
"""GPU utilisation above which the GPU bounds the speed, and below which it certainly does not."""
_LOW_SM_PCT = 40.0
"""Share of busy SMs below which a busy GPU runs small kernels."""
_MAJORITY_PCT, _SURE_PCT = 50.0, 60.0
"""Shares of the time above which an activity is the cause, and above which that is certain."""
_MAX_FEW_ENVS = 64
"""Maximum environments that count as few."""
_USUAL_THROTTLES = frozenset({"power cap", "sync boost", "display clock"})
_POWER_THROTTLES = frozenset({"power brake", "board limit", "reliability"})
_LANE_MIB_S = (0, 238, 477, 939, 1878, 3756, 7512)
"""The bandwidth of a PCIe lane, by generation."""
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
"""Activities, each with the words in the names of functions that perform it."""


def _gpu_is_below(facts: SpeedFacts, util_pct: float) -> bool:
    """Returns True if the GPU utilisation is below `util_pct`, or unknown."""
    return facts.gpu_util_pct is None or facts.gpu_util_pct < util_pct


def _largest_share(facts: SpeedFacts) -> tuple[str, float]:
    """Returns the activity with the largest share of the time, empty if unknown, and the share in percent."""
    shares = facts.shares.by_name.items() if facts.shares is not None else ()
    return max(shares, key=lambda share: share[1], default=("", 0.0))


def _script_idles_gpu(facts: SpeedFacts) -> bool:
    """Returns True if the script leaves the GPU idle, whatever else slows it down."""
    return facts.shares is not None and facts.shares.simulator < 100 - _SURE_PCT and _gpu_is_below(facts, _IDLE_PCT)


def _cores(number: float) -> str:
    return f"{number:g} core{'' if number == 1 else 's'}"


# Not running


def _judge_state(facts: SpeedFacts) -> Verdict | None:
    if facts.state.active:
        return None
    advice = facts.recorded.advice if facts.recorded is not None else ""
    return Verdict(
        facts.state.value, f"{facts.state.value}{f': {facts.reason}' if facts.reason else ''}", advice=advice
    )


def _judge_stopped(facts: SpeedFacts) -> Verdict | None:
    if not load_of(facts).stopped:
        return None
    return Verdict("stopped", "stopped by a signal or a debugger", advice="kill -CONT continues it")


def _judge_starting(facts: SpeedFacts) -> Verdict | None:
    if facts.state is WorkerState.RUNNING and facts.phase is not Phase.SAVING:
        return None
    phase = facts.phase.value or facts.state.value
    usual_s = facts.phase_usual_s
    usual = f", usually {units.span(usual_s)}" if usual_s is not None and usual_s >= 1 else ""
    kind = "ending" if facts.phase is Phase.SAVING else "starting"
    text = f"{kind}: {phase} for {units.span(facts.phase_s)}{usual}"
    is_late = usual_s is not None and facts.phase_s > 3 * max(usual_s, 10.0)
    advice = "far longer than usual; its stacks (why --stacks) show where it is" if is_late else ""
    return Verdict(kind, text, advice=advice)


def _judge_misplaced(facts: SpeedFacts) -> Verdict | None:
    if facts.misplaced is None:
        return None
    return Verdict(
        "device", f"on the wrong device: {facts.misplaced}", advice="check the backend that the script chooses"
    )


def _judge_rank(facts: SpeedFacts) -> Verdict | None:
    if facts.waits_for is None:
        return None
    text, advice = f"waiting for {facts.waits_for}", "look at the verdict on that rank"
    return Verdict("rank", text, certain=False, advice=advice)


# The machine


def _judge_swap(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    faults, traffic = load.major_faults_per_s or 0.0, load.swapped_mib_per_s or 0.0
    if faults < 50 or traffic < 1 or (load.swap_mib or 0.0) < 16:
        return None
    text = f"swapping: {faults:,.0f} pages/s read back, {units.mib(load.swap_mib)} of its memory in swap"
    return Verdict("swap", text, certain=faults >= 200, advice="use less RAM, or fewer workers")


def _judge_quota(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    if load.quota is None or load.throttled_pct is None or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    without_core_pct = coreless_pct(facts)
    used_pct = (load.cpu_pct or 0.0) / load.quota
    if load.throttled_pct < 25 or used_pct < 70 or without_core_pct < 10:
        return None
    text = f"CPU quota: paused in {pct(load.throttled_pct)} of the periods, with {_cores(load.quota)} allowed"
    certain = load.throttled_pct >= 50 and without_core_pct >= 20
    advice = "allow more cores (docker --cpus, Slurm --cpus-per-task), or fewer threads"
    return Verdict("quota", text, certain, advice=advice)


def _judge_io(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    wait_pct = load.waits_pct.get("file", 0.0) + load.waits_pct.get("disk", 0.0)
    if wait_pct < 40 or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    file = f" in {load.file}" if load.file else ""
    rate = f", reading {load.read_mib_per_s:.1f} MiB/s" if load.read_mib_per_s else ""
    text = f"waiting for I/O: {pct(wait_pct)} of the time{file}{rate}"
    return Verdict("io", text, wait_pct >= _SURE_PCT, advice="use a faster disk, or read ahead in another process")


def _judge_stuck(facts: SpeedFacts) -> Verdict | None:
    if facts.stuck is None:
        return None
    return Verdict("stuck", f"stuck: {facts.stuck}", advice="its stacks (why --stacks) show where it is; r restarts it")


def _judge_threads(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    if load.cores is None or load.ready is None or load.threads is None or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    if facts.state is not WorkerState.RUNNING and facts.phase is not Phase.BUILT:  # imports and compilers use many
        return None
    cores, lock_pct = _cores(load.cores), load.waits_pct.get("lock", 0.0)
    advice = "set OMP_NUM_THREADS, or the number of the script's threads, to the number of cores"
    wait_pct = max(coreless_pct(facts), lock_pct)
    waits = f"the main thread waits {pct(wait_pct)} of the time"
    if load.ready >= max(1.5 * load.cores, load.cores + 1) and wait_pct >= 20:
        text = f"too many threads: {load.ready:.0f} want to run on {cores}, and {waits}"
        return Verdict("threads", text, load.ready >= 2.5 * load.cores and wait_pct >= 30, advice=advice)
    is_gil = load.threads >= 4 * max(2.0, load.cores) and lock_pct >= 40 and 70 <= (load.cpu_pct or 0.0) <= 140
    if is_gil:
        waits = f"the main thread waits {pct(lock_pct)} of the time"
        text = f"too many threads: {load.threads} take turns (Python runs one at a time), {waits}"
        return Verdict("threads", text, certain=False, advice="use processes, or fewer threads")
    return None


def _judge_throttled(facts: SpeedFacts) -> Verdict | None:
    sample = sample_of(facts)
    reasons = [reason for reason in sample.throttle or () if reason not in _USUAL_THROTTLES]
    clock_mhz, max_mhz = sample.sm_clock_mhz, sample.sm_clock_max_mhz
    is_slow = clock_mhz and max_mhz and clock_mhz < 0.6 * max_mhz and not _gpu_is_below(facts, _IDLE_PCT)
    is_capped = "power cap" in (sample.throttle or ()) and is_slow
    if (not reasons and not is_capped) or _gpu_is_below(facts, 20) or _script_idles_gpu(facts):
        return None
    by_power = not reasons or _POWER_THROTTLES.issuperset(reasons)
    clock = f", {clock_mhz:,.0f} of {max_mhz:,.0f} MHz" if clock_mhz and max_mhz else ""
    heat = f", {sample.temperature_c:.0f} °C" if sample.temperature_c is not None and not by_power else ""
    text = f"throttled by {'power' if by_power else 'heat'}: {', '.join(reasons) or 'power cap'}{clock}{heat}"
    certain, advice = bool(reasons) and not _gpu_is_below(facts, _IDLE_PCT), "check cooling and airflow"
    return Verdict("throttled", text, certain, advice="raise the power limit" if by_power else advice)


def _judge_shared(facts: SpeedFacts) -> Verdict | None:
    if not facts.sharers or _gpu_is_below(facts, 40) or _script_idles_gpu(facts):
        return None
    sharers = ", ".join(facts.sharers[:3])
    text = f"slowed by others on its GPU: {sharers}; together they keep it busy {pct(facts.gpu_util_pct)} of the time"
    return Verdict("shared", text, certain=False, advice="move one of them to another GPU")


# Shares of the time


def _judge_rendering(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "rendering" or share < 40:
        return None
    text = f"rendering-bound: {pct(share)} of the time is spent on rendering"
    return Verdict("rendering", text, share >= _MAJORITY_PCT, advice="render less often, smaller, or fewer cameras")


def _judge_learning(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "learning" or share < 40:
        return None
    text = f"learning-bound: {pct(share)} of the time is spent on learning, without steps"
    return Verdict(
        "learning", text, share >= _MAJORITY_PCT, advice="use larger minibatches, fewer epochs, or a smaller network"
    )


def _pcie_mib_s(facts: SpeedFacts) -> float:
    """Returns the PCIe traffic in the busier direction, in MiB/s; 0 if unknown."""
    sample = sample_of(facts)
    return max(sample.pcie_rx_mib_s or 0.0, sample.pcie_tx_mib_s or 0.0)


def _judge_pcie(facts: SpeedFacts) -> Verdict | None:
    health, mib_s = sample_of(facts).health or GpuHealth(), _pcie_mib_s(facts)
    gen, width = health.pcie_gen, health.pcie_width
    if not gen or not width or not 0 < gen < len(_LANE_MIB_S):
        return None
    share_pct = 100 * mib_s / (_LANE_MIB_S[gen] * width)
    if share_pct < 50 or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    is_reduced = (gen, width) != (health.pcie_gen_max or gen, health.pcie_width_max or width)
    maximum = f" of {health.pcie_gen_max}, {health.pcie_width_max}" if is_reduced else ""
    text = f"PCIe-bound: {mib_s:,.0f} MiB/s use {pct(share_pct)} of the link (generation {gen}, {width} lanes{maximum})"
    advice = "check the slot and the BIOS: the card can do more" if is_reduced else "keep tensors on the GPU"
    return Verdict("pcie", text, certain=share_pct >= 75, advice=advice)


def _judge_gpu(facts: SpeedFacts) -> Verdict | None:
    if facts.gpu_util_pct is None or facts.gpu_util_pct < _BUSY_PCT:
        return None
    util = pct(facts.gpu_util_pct)
    if facts.sm_pct is not None and facts.sm_pct < _LOW_SM_PCT:
        text = f"launch-bound: a kernel is always running ({util}), but on {pct(facts.sm_pct)} of the SMs"
        return Verdict("simulator", text, certain=False, advice=_envs_advice(facts))
    text = f"GPU-bound: {util}; this is what the card can do"
    is_below = facts.tuned_envs is not None and facts.n_envs is not None and facts.n_envs < 0.8 * facts.tuned_envs
    return Verdict("limit", text, facts.gpu_util_pct >= 95, advice=_envs_advice(facts) if is_below else "")


def _has_few_envs(facts: SpeedFacts) -> bool:
    return facts.n_envs is not None and facts.n_envs <= _MAX_FEW_ENVS


def _envs_advice(facts: SpeedFacts) -> str:
    if facts.tuned_envs is not None and (facts.n_envs or 0) < facts.tuned_envs:
        return f"raise n_envs; tune found {facts.tuned_envs:,}"
    return "raise n_envs: gmg-tui tune finds the best number"


def _judge_script(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "script" or share < _MAJORITY_PCT:
        return None
    load, spot, text = load_of(facts), facts.hot_spot, _SCRIPT_TEXT.format(share=pct(share))
    kind, advice = "script", "vectorise it, or raise n_envs (fewer, larger steps)"
    certain = share >= _SURE_PCT and _gpu_is_below(facts, _IDLE_PCT)
    wait, wait_pct = max(load.waits_pct.items(), key=lambda item: item[1], default=("", 0.0))
    if wait in _WAIT_PHRASES and wait_pct >= 0.5 * share and (load.main_cpu_pct or 0.0) < 60:
        text += f", which {_WAIT_PHRASES[wait]}"
        advice = "remove the sleep" if wait == "sleep" else "its stacks (why --stacks) show where it waits"
        certain = certain and wait != "driver"
    if spot is not None and spot.share_pct >= 40:
        function = spot.function.lower()
        kind = next((kind for kind, words in _FUNCTION_KINDS if any(word in function for word in words)), kind)
        advice = f"look at {spot.function} ({PurePath(spot.file).name}:{spot.line}): {advice}"
        if kind != "script":
            text = f"{kind}-bound: {pct(share)} of each step is in {spot.function}"
            return Verdict(kind, text, certain=False, advice=advice)
    return Verdict(kind, text, certain, advice=advice)


def _judge_numa(facts: SpeedFacts) -> Verdict | None:
    load = load_of(facts)
    is_busy = (load.main_cpu_pct or 0.0) >= 60 or _pcie_mib_s(facts) >= 1000
    is_remote = bool(facts.remote_cpus) and set(facts.remote_cpus) == set(load.cpus)
    if not is_remote or not is_busy or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    node = facts.numa_node
    text = f"on the wrong NUMA node: its GPU is on node {node}, its CPUs ({_cpu_list(load.cpus)}) are not"
    return Verdict("numa", text, certain=False, advice=f"numactl --cpunodebind={node} --membind={node}")


def _cpu_list(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus[:4])) + (" …" if len(cpus) > 4 else "")


def _judge_cores(facts: SpeedFacts) -> Verdict | None:
    without_core_pct = coreless_pct(facts)
    if without_core_pct < _MAJORITY_PCT or not _gpu_is_below(facts, _IDLE_PCT):
        return None
    if _has_few_envs(facts) and facts.shares is not None:
        return None
    share = pct(without_core_pct)
    text = f"short of CPU: the main thread is ready but gets no core {share} of the time; other processes use the cores"
    advice = "run fewer processes on this machine, or give it cores of its own"
    return Verdict("cpu", text, certain=False, advice=advice)


def _judge_simulator(facts: SpeedFacts) -> Verdict | None:
    name, share = _largest_share(facts)
    if name != "simulator" or share < _MAJORITY_PCT or not _gpu_is_below(facts, _BUSY_PCT):
        return None
    load = load_of(facts)
    envs = f" with {units.count(facts.n_envs, 'environment')}" if facts.n_envs else ""
    uses_all_cores = load.cores is not None and load.cores >= 1.5 and (load.cpu_pct or 0.0) >= 85 * load.cores
    if facts.has_gpu or _has_few_envs(facts):
        idle = "GPU" if facts.has_gpu else "cores"
        text = f"host-bound: {pct(share)} of the time is the simulator's own host code"
        without_core_pct = coreless_pct(facts)
        is_busy = (load.main_cpu_pct or 0.0) + without_core_pct >= 60 and without_core_pct < _MAJORITY_PCT
        is_idle = _gpu_is_below(facts, 50) and (not facts.has_gpu or facts.gpu_util_pct is not None)
        certain = share >= _SURE_PCT and is_busy and is_idle and not uses_all_cores
        return Verdict("simulator", f"{text}{envs}, too few to fill the {idle}", certain, advice=_envs_advice(facts))
    used = f", on {(load.cpu_pct or 0.0) / 100:.1f} of {_cores(load.cores)}" if load.cores is not None else ""
    text = f"CPU-bound: {pct(share)} of the time is the simulator's{envs}{used}"
    advice = "" if uses_all_cores else "give it more threads, or run it on a GPU"
    return Verdict("limit", text, uses_all_cores and facts.n_envs is not None, advice=advice)


def _judge_host(facts: SpeedFacts) -> Verdict | None:
    """Returns a verdict on a worker whose steps are not counted."""
    load = load_of(facts)
    if facts.shares is not None or facts.gpu_util_pct is None or not _gpu_is_below(facts, _IDLE_PCT):
        return None
    gpu = f"GPU {pct(facts.gpu_util_pct)}"
    if (load.main_cpu_pct or 0.0) >= 80:
        text = f"host-bound: the main thread takes {pct(load.main_cpu_pct)} of a core, {gpu}"
        advice = "its stacks (why --stacks) show where; its steps are not counted"
        return Verdict("host", text, certain=False, advice=advice)
    if (sleep_pct := load.waits_pct.get("sleep", 0.0)) >= _SURE_PCT:
        text = f"host-bound: the script sleeps {pct(sleep_pct)} of the time, {gpu}"
        return Verdict("script", text, certain=False, advice="remove the sleep")
    return None


TABLE: tuple[Callable[[SpeedFacts], Verdict | None], ...] = (
    *(_judge_state, _judge_stopped, _judge_misplaced, _judge_swap, _judge_quota, _judge_io, _judge_threads),
    *(_judge_rank, _judge_stuck, _judge_starting, _judge_throttled, _judge_shared, _judge_rendering),
    *(_judge_learning, _judge_pcie, _judge_gpu, _judge_script, _judge_numa),
    *(_judge_cores, _judge_simulator, _judge_host),
)
"""The functions in order of precedence; the first verdict counts."""


def judge(facts: SpeedFacts) -> Verdict:
    """Returns the verdict with its evidence; its kind is `unknown` if no cause fits the facts."""
    unknown = Verdict("unknown", "unknown: the facts fit no single cause")
    verdict = next(filter(None, (judge_cause(facts) for judge_cause in TABLE)), unknown)
    text = verdict.text if verdict.certain else f"probably {verdict.text}"
    return Verdict(verdict.kind, text, verdict.certain, tuple(evidence(facts)), verdict.advice)
