"""Alerts from facts that were recorded over an hour: raised when they are true, and never else."""

import math
import random
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.diagnosis.collisions import exclusive_paths, find_collisions, find_same_arguments
from gmg_tui.diagnosis.facts import Facts, Growth, Limit
from gmg_tui.diagnosis.kinds import KINDS, Watch, action_for
from gmg_tui.engine.attempts.curves import Curves
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.machine.cgroup import MemoryLimit
from gmg_tui.model import (
    Alert,
    AlertAction,
    GpuHealth,
    GpuProcess,
    GpuSample,
    GpuTrouble,
    Phase,
    Progress,
    Severity,
    Sign,
    Slot,
    Worker,
    WorkerState,
)
from gmg_tui.scripts.probe.reports import Metric
from gmg_tui.scripts.readers import messages
from gmg_tui.scripts.readers.messages import Overflows
from tests.workers import changed, diagnosed, texts, worker_of

_RUNNING = worker_of("gpu0", 0, WorkerState.RUNNING, attempt=1, attempt_started=0.0, start_s=10.0, output_bytes=9)
_CAPACITY_MIB = 80_000.0


def _raised(facts: Callable[[float], Facts], until_s: float = 3600.0, step_s: float = 1.0) -> dict[str, float]:
    """When each kind of alert was raised first, of facts at each second."""
    watch, raised, now = Watch(), dict[str, float](), 0.0
    while now <= until_s:
        for alert in watch.update(facts(now))[0]:
            raised.setdefault(alert.kind, now)
        now += step_s
    return raised


def _sample(used_mib: float, **fields: object) -> GpuSample:
    free_mib = _CAPACITY_MIB - used_mib
    return changed(GpuSample("A", memory_used_mib=used_mib, memory_free_mib=free_mib, gpu_util_pct=97.0), **fields)


def _vram(curve: Callable[[float], float]) -> Callable[[float], Facts]:
    def facts(now: float) -> Facts:
        return Facts(now, _RUNNING, _sample(curve(now)), vram_mib=curve(now))

    return facts


def test_a_leak_is_forecast_within_a_fifth_at_half_way() -> None:
    rng, growth, full = random.Random(7), Growth(), 7200.0
    for now in range(0, 3720, 20):
        used = 2000.0 + (_CAPACITY_MIB - 2000.0) * now / full
        growth.add(now, used + rng.uniform(-300, 300))
    forecast = growth.forecast(_CAPACITY_MIB - used)
    assert forecast.full_s == pytest.approx(full - 3700, rel=0.2)


@pytest.mark.parametrize(
    "curve",
    [
        lambda now: 30_000.0,
        lambda now: 70_000.0 * (1 - math.exp(-now / 200)),  # an allocator's cache levels off
        lambda now: 2_000.0 + 38_000.0 * min(1.0, now / 1200),  # a replay buffer fills
        lambda now: 30_000.0 + 20_000.0 * math.sin(now / 60),
        lambda now: 20_000.0 * (1 + now // 900),  # a level for each stage of a curriculum
    ],
)
def test_memory_that_does_not_grow_steadily_to_its_limit_raises_nothing(curve: Callable[[float], float]) -> None:
    assert _raised(_vram(curve), 3400, 5.0) == {}


def test_a_leak_is_raised_in_words_and_is_over_when_it_stops() -> None:
    watch = Watch()
    for now in range(0, 6000, 10):
        watch.update(_vram(lambda now: 2000.0 + 13.0 * min(now, 3600))(now))
        if now == 3590:
            assert (
                texts(watch.alerts) == ("VRAM full in 39 min 59 s (+780 MiB/min)",)
                or "VRAM full in" in texts(watch.alerts)[0]
            )
    assert watch.alerts == ()


def test_memory_that_may_be_another_process_s_raises_only_a_mild_alert() -> None:
    def facts(now: float, own_mib: float | None = None) -> Facts:
        return Facts(now, _RUNNING, _sample(2000.0 + 13.0 * now), vram_mib=own_mib)

    watch = Watch()
    for now in range(0, 3600, 10):
        watch.update(facts(now))
    (alert,) = watch.alerts
    assert (alert.kind, alert.severity, alert.advice) == ("leak", Severity.INFO, "it may be memory of another process")
    assert action_for(alert, {"leak": AlertAction.STOP}) is AlertAction.SHOW
    assert _raised(partial(facts, own_mib=2000.0), 3590) == {}


def test_memory_that_others_hold_makes_no_leak_of_slow_growth() -> None:
    others = (GpuProcess(7, memory_mib=60_000.0),)

    def facts(now: float) -> Facts:
        own_mib = 10_000.0 + 0.5 * now
        return Facts(now, _RUNNING, _sample(own_mib + 60_000.0 + 9_000.0), vram_mib=own_mib, others=others)

    assert "leak" not in _raised(facts, 3400, 5.0)
    assert "leak" in _raised(lambda now: structs.replace(facts(now), others=()), 3400, 5.0)


def test_an_alert_is_one_line_whatever_a_file_is_called() -> None:
    watch = Watch()
    watch.update(Facts(0.0, _RUNNING, signs=(Sign("collision", "cpu0 and cpu1 write /x\ncpu2 finished"),)))
    assert texts(watch.alerts) == ("cpu0 and cpu1 write /x·cpu2 finished",)


def test_ram_counts_against_the_cgroup_and_the_end_of_the_work() -> None:
    def facts(now: float, eta_s: float | None = None) -> Facts:
        used = 60.0 + now
        progress = Progress(5, 10, "iteration", eta_s)
        worker = changed(_RUNNING, memory_rss_mib=used, progress=progress, output_bytes=int(now))
        return Facts(now, worker, room=MemoryLimit(512.0, used, "cgroup"))

    assert _raised(facts, 440) == {"leak": pytest.approx(360, abs=25), "memory": pytest.approx(406, abs=5)}
    assert _raised(lambda now: facts(now, eta_s=20.0), 390) == {}


def test_work_that_is_complete_must_end() -> None:
    complete = changed(_RUNNING, progress=Progress(100, 100, "iteration"))
    assert _raised(lambda now: Facts(now, complete), 300) == {"done": pytest.approx(61, abs=1)}

    def facts(now: float, jump_s: float) -> Facts:
        clock_s = jump_s if now > 30.0 else 0.0  # the system clock is set
        return Facts(now + clock_s, complete, clock_s=clock_s)

    watch = Watch()
    for now in (0.0, 5.0, 905.0, 906.0):  # all were suspended for 15 minutes
        watch.update(Facts(now, complete))
    assert not watch.alerts
    for jump_s in (3600.0, -3600.0):
        assert _raised(partial(facts, jump_s=jump_s), 300) == {"done": pytest.approx(61, abs=1)}
    saving = changed(complete, phase=Phase.SAVING)
    assert _raised(lambda now: Facts(now, saving), 300) == {}
    assert _raised(lambda now: Facts(now, complete, is_writing=True), 300) == {}
    prints = [changed(complete, output_bytes=number) for number in range(600)]
    assert _raised(lambda now: Facts(now, prints[int(now / 50)]), 599) == {}
    # A bar may show that something was loaded, or the first of many epochs.
    bars = [changed(complete, started=-bar_s, start_s=0.0) for bar_s in (5.0, 1000.0, 50_000.0)]
    raised = [_raised(lambda now, bar=bar: Facts(now, bar, is_bar=True), 3700)["done"] for bar in bars]  # type: ignore[misc]
    assert raised == [pytest.approx(at, abs=2) for at in (660, 1060, 3660)]
    busy = changed(complete, cpu_pct=90.0)  # only a part may be complete, such as the preparation of the data
    assert _raised(lambda now: Facts(now, busy), 700) == {"done": pytest.approx(660, abs=2)}
    starved = _raised(lambda now: Facts(now, complete, is_starved=True), 700)  # others compute on its core
    assert starved == {"done": pytest.approx(660, abs=2)}
    said = changed(_RUNNING, last_line="Training finished.")
    assert "done" in _raised(lambda now: Facts(now, said), 100)
    # A worker with metrics has these as its last line.
    said = changed(_RUNNING, last_line="epoch 10 of 10, loss 0.1")
    assert "done" in _raised(lambda now: Facts(now, said, newest_line="Training complete"), 300)
    assert _raised(lambda now: Facts(now, changed(_RUNNING, last_line="Epoch 1 done, evaluating")), 300) == {}


def test_an_action_is_taken_once_an_alert_needs_one() -> None:
    """A GPU with a slow link still works; its next fault may be fatal."""
    watch, on = Watch(), {"gpu": AlertAction.STOP, "shared": AlertAction.STOP}
    slow, fatal = GpuTrouble(False, "PCIe x8", "seat"), GpuTrouble(True, "Xid 79: off the bus", "reboot")
    actions = []
    for troubles in ((slow,), (slow,), (fatal, slow), (fatal, slow)):
        raised, _ = watch.update(Facts(1.0, _RUNNING, _sample(9, health=GpuHealth(troubles=troubles))))
        actions += [action_for(alert, on) for alert in raised]
    assert actions == [AlertAction.SHOW, AlertAction.STOP]
    assert action_for(Alert("shared", Severity.INFO, "others compute", 1.0), on) is AlertAction.STOP


def test_an_alert_that_a_stop_ends_is_no_recovery() -> None:
    complete, slot = changed(_RUNNING, progress=Progress(100, 100, "iteration")), EngineSlot(Slot("gpu0"), 0, 1)

    def over(worker: Worker, *times: float) -> list[str]:
        return [alert.kind for now in times for alert in slot.diagnose(worker, now, None)]

    assert over(complete, *map(float, range(70))) == []
    assert [alert.kind for alert in slot.alerts_of(None)] == ["done"]
    assert over(changed(complete, state=WorkerState.STOPPING), 70.0) == []
    assert slot.alerts_of(None) == ()


def test_metrics_that_break_are_named_with_their_last_finite_value() -> None:
    curves = Curves()
    for step, loss in enumerate([0.5, 0.25, math.nan, math.nan], 210):
        never = dict.fromkeys(("explained_variance", "success", "val_loss", "eval/loss"), math.nan)
        values = {**never, "loss": loss, "best_loss": math.inf, "grad_norm": 1.0 if step < 211 else math.inf}
        values["reward/level_0"] = 1.0 if step < 211 else math.nan  # perhaps because no robot is there
        curves.add([Metric(name, value, step, 1.0) for name, value in values.items()], "iteration")
    watch = Watch()
    watch.update(Facts(1.0, _RUNNING, broken=curves.broken))
    (alert,) = watch.alerts
    assert (alert.kind, alert.text) == (
        "nan",
        "loss and 1 other metric NaN since iteration 212; last finite value 0.25",
    )
    assert curves.broken_since == curves.broken["loss"].since
    assert _raised(lambda now: Facts(now, _RUNNING, broken={}), 10) == {}


def test_a_limit_before_the_end_of_the_work() -> None:
    def facts(late_s: float) -> Callable[[float], Facts]:
        worker = changed(_RUNNING, progress=Progress(300, 1000, "iteration", eta_s=7200.0))
        return lambda now: Facts(
            now, changed(worker, output_bytes=int(now)), limit=Limit(now + 7200 - late_s, "Slurm's limit")
        )

    assert _raised(facts(7000), 100) == {"deadline": 60.0}
    assert _raised(facts(60), 100) == {}
    watch = Watch()
    for now in range(0, 71, 10):
        watch.update(facts(7200)(now))
    assert texts(watch.alerts) == ("ends 2h 00m after Slurm's limit",)


def test_gpus_that_idle_throttle_or_break() -> None:
    assert _raised(
        lambda now: Facts(now, changed(_RUNNING, output_bytes=int(now)), _sample(9, gpu_util_pct=1.0)), 300
    ) == {"idle": 180.0}
    assert _raised(lambda now: Facts(now, _RUNNING, _sample(9, throttle=("power cap",))), 99) == {}
    assert _raised(lambda now: Facts(now, _RUNNING, _sample(9, throttle=("thermal",))), 99) == {"throttled": 2.0}
    health = GpuHealth(
        troubles=(GpuTrouble(True, "Xid 79: off the bus", "reboot"), GpuTrouble(False, "PCIe x8", "seat"))
    )
    watch = Watch()
    waiting = worker_of("gpu0", 0, WorkerState.WAITING)
    watch.update(Facts(0.0, waiting, _sample(9, health=health)))
    assert (texts(watch.alerts), watch.alerts[0].severity) == (("Xid 79: off the bus; PCIe x8",), Severity.ERROR)


def test_what_an_agent_has_judged_is_not_judged_again() -> None:
    hot = Facts(0.0, _RUNNING, _sample(9, throttle=("thermal",)), below_median_pct=9.0, from_agent=True)
    assert _raised(lambda now: structs.replace(hot, now=now), 99) == {"slow": 5.0}
    signs = (Sign("throttled", "throttled: thermal", since=3.0),)
    assert _raised(lambda now: structs.replace(hot, now=now, signs=signs), 99) == {"throttled": 0.0, "slow": 5.0}


def test_a_gpu_that_others_use_too() -> None:
    others = (GpuProcess(1, memory_mib=8192, user="ann"), GpuProcess(2, memory_mib=4096, user="ann"), GpuProcess(3))
    worker = diagnosed(_RUNNING, _sample(30_000.0), others=others)
    assert texts(worker.alerts) == ("gpu0 is also used by ann: 12.0 GiB, PID 3: 0 MiB",)
    assert worker.alerts[0].severity is Severity.INFO
    assert not diagnosed(_RUNNING, _sample(30_000.0)).alerts


def test_signs_from_elsewhere_keep_their_beginning_and_live_ones_end_with_the_process() -> None:
    watch, signs = Watch(), (Sign("stuck", "no output", since=40.0), Sign("unclean", "exit code 0 after KeyError"))
    watch.update(Facts(50.0, _RUNNING, signs=signs))
    assert [(alert.kind, alert.since) for alert in watch.alerts] == [("stuck", 40.0), ("unclean", 50.0)]
    watch.update(Facts(51.0, changed(_RUNNING, state=WorkerState.FINISHED), signs=signs))
    assert [alert.kind for alert in watch.alerts] == ["unclean"]


def test_no_line_without_an_overflow_is_searched_from_each_letter_to_its_end() -> None:
    """A line may have 64 KiB."""
    table = tomllib.loads((Path(messages.__file__).parent / "overflows.toml").read_text())
    assert all(re.search(r"[\w.\]][+*]", row["line"].replace(r"\d+", "")) is None for row in table.values())


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("nefc overflow - please increase njmax to 257", "set njmax to at least 257"),
        ("narrowphase overflow - please increase nconmax to 9 or naconmax to 90", "set nconmax to at least 9"),
        (
            "PhysX error: The application needs to increase PxGpuDynamicsMemoryConfig::foundLostPairsCapacity to 36218880, "
            "otherwise, the simulation will miss interactions",
            "set foundLostPairsCapacity (Isaac Lab: gpu_found_lost_pairs_capacity) to at least 36,218,880",
        ),
        (
            "Patch buffer overflow detected, please increase its size to at least 266360",
            "set gpu_max_rigid_patch_count to at least 266,360",
        ),
        (
            "Exceeding max number of candidate contact points (300). Please increase the value of RigidSolver's option "
            "'max_collision_pairs'.",
            "set max_collision_pairs to at least 600",
        ),
    ],
)
def test_overflows_are_counted_with_the_number_to_set(line: str, advice: str) -> None:
    overflows = Overflows()
    overflows.feed(b"RuntimeWarning: overflow encountered in exp\nstack overflow\n")
    assert overflows.sign is None
    overflows.feed(f"{line}\n{line}\n".encode())
    assert overflows.sign is not None
    assert overflows.sign.advice == advice
    assert "2 overflows of" in overflows.sign.text


def test_workers_that_write_the_same_places() -> None:
    events = "/r/run/events.out.tfevents.1.host.{}.0"
    written = {
        "gpu0": exclusive_paths([events.format(1), "/r/a.pt", "/home/u/.cache/x"]),
        "gpu1": exclusive_paths([events.format(2), "/r/b.pt", "/home/u/.cache/x"]),
        "gpu2": exclusive_paths(["/r/c.pt"]),
        "n2/gpu0": exclusive_paths(["/r/c.pt"]),
    }
    assert {slot: sign.text for slot, sign in find_collisions(written, {}).items()} == dict.fromkeys(
        ("gpu0", "gpu1"), "gpu0 and gpu1 write /r/run"
    )
    assert find_collisions(written, {"gpu0": "g0", "gpu1": "g0"}) == {}
    assert exclusive_paths(["/scratch/genesis/cvx/8c.cvx", "/scratch/qd/kernel/8c.qdc"]) == set()


def test_workers_with_the_same_arguments_are_noticed_before_they_collide() -> None:
    source = 'parser.add_argument("--seed", type=int)\nparser.add_argument("--log_dir")\n'
    sign = find_same_arguments(source, ("-B", "64"), 4)
    assert (sign.text, sign.advice) == (
        "4 workers get the same arguments; the script takes --seed, --log_dir",
        "add --seed {seed} --log_dir run-{i}",
    )
    assert find_same_arguments(source, ("--seed", "{seed}"), 4) is None
    assert find_same_arguments(source, (), 1) is None
    assert find_same_arguments("print('hello')", (), 4) is None


def test_every_kind_says_when_it_is_raised() -> None:
    assert all(kind.meaning and kind.name == name for name, kind in KINDS.items())
