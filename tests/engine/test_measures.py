"""Histories, meters and rates: bounded, and true."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gmg_tui.engine.attempts.gpu_use import Meter
from gmg_tui.engine.output.history import RECENT_POINTS, History, Point
from gmg_tui.machine.folders import make_locked
from gmg_tui.model import Fps, GpuSample, Phase, WorkerState, total_fps
from gmg_tui.model.attempt import MAX_JOB_CHECKPOINTS
from gmg_tui.scripts.genesis.output.printed_rate import PrintedRate
from gmg_tui.scripts.probe import SITE
from gmg_tui.scripts.probe.counts import MAX_PROCESSES, Counts
from gmg_tui.scripts.probe.folders import PREFIX, make_folders, read_abandoned
from gmg_tui.scripts.probe.site import gmg_probe
from gmg_tui.scripts.probe.site import gmg_reports as ring
from gmg_tui.session import STORE
from gmg_tui.session.store.reader import open_store
from tests.patience import eventually, wait_until

from .harness import running, spec_for


def test_a_long_history_is_kept_in_bounded_memory_with_its_mean() -> None:
    history = History()
    for second in range(100_000):
        history.add(1000.0 + second, Point(float(second), None, 1.0, None))
    whole = history.overall("gpu0")
    assert len(whole.fps) <= 721
    assert whole.end == pytest.approx(1000.0 + 99_999, abs=whole.step_s)
    assert len(whole.fps) * whole.step_s == pytest.approx(100_000, rel=0.01)
    assert whole.fps[0] == pytest.approx((whole.step_s - 1) / 2)
    assert set(whole.gpu_util_pct) == {None}
    recent = history.recent("gpu0")
    assert recent.fps == tuple(float(second) for second in range(100_000 - RECENT_POINTS, 100_000))


def test_sm_activity_is_included_once_it_was_known() -> None:
    history, other = History(), History()
    for second in range(3):
        history.add(1000.0 + second, Point(1.0, 97.0, None, None, None if second == 1 else 40.0 + second))
        other.add(1000.0 + second, Point(float(second), None, None, None))
    assert history.recent("gpu0").sm_pct == history.overall("gpu0").sm_pct == (40.0, None, 42.0)
    assert other.recent("gpu0").sm_pct == ()
    assert other.overall("gpu0").fps == (0.0, 1.0, 2.0)


def test_means_cover_the_running_phase() -> None:
    meter = Meter()
    meter.add(GpuSample("u", gpu_util_pct=10.0, power_w=100.0), running=False, now=0.0)
    meter.add(GpuSample("u", gpu_util_pct=90.0, power_w=300.0), running=True, now=1.0)
    meter.add(GpuSample("u", gpu_util_pct=80.0, power_w=400.0), running=True, now=2.0)
    assert meter.gpu_util_pct.value == 85.0
    assert meter.power_w.value == 350.0


def test_energy_without_a_counter_is_power_over_time() -> None:
    meter = Meter()
    for second, power_w in enumerate((100.0, 300.0, 300.0)):
        meter.add(GpuSample("u", power_w=power_w), running=False, now=float(second))
    assert meter.energy_j == 200.0 + 300.0


def test_power_of_the_counted_seconds_excludes_building_and_ending() -> None:
    meter = Meter()
    for second in range(20):
        power_w = 300.0 if 5 < second <= 15 else 100.0
        counted = (5.5, min(second - 0.5, 14.5)) if second > 6 else None
        energy_j = 9000.0 + 100.0 * second + 200.0 * min(max(0, second - 5), 10)
        sample = GpuSample("u", power_w=power_w, energy_j=energy_j)
        meter.add(sample, running=True, now=float(second), counted=counted)
    assert meter.counted_power_w == pytest.approx(300.0)
    assert Meter().counted_power_w is None


def test_power_of_a_few_samples_is_unknown() -> None:
    meter = Meter()
    for second in range(4):  # 2 s at 300 W begin between two samples
        counted = (1.9, min(second, 3.4)) if second > 1 else None
        energy_j = 9000.0 + 20.0 * min(second, 1.9) + 300.0 * max(0.0, second - 1.9)
        meter.add(GpuSample("u", energy_j=energy_j), running=True, now=float(second), counted=counted)
    assert meter.counted_power_w is None


def test_workers_on_one_gpu_share_its_power_and_its_energy() -> None:
    alone, meters = Meter(), (Meter(), Meter())
    for second, energy_j in enumerate((5000.0, 5600.0, 6200.0)):
        sample = GpuSample("u", power_w=600.0, energy_j=energy_j)
        alone.add(sample, running=True, now=float(second))
        for meter in meters:
            meter.add(sample, running=True, now=float(second), sharers=2)
    assert [meter.energy_j for meter in meters] == [600.0, 600.0]
    assert [meter.power_w.value for meter in meters] == [300.0, 300.0]
    assert (alone.energy_j, alone.power_w.value) == (1200.0, 600.0)


def test_reloading_the_driver_loses_no_energy() -> None:
    meter = Meter()
    for energy_j in (5000.0, 5600.0, 10.0, 110.0):
        meter.add(GpuSample("u", energy_j=energy_j), running=True, now=0.0)
    assert meter.energy_j == 700.0


# The current rate from the probe's counts, in made-up time: that of whole periods over about ten seconds

SECOND_NS = 1_000_000_000
LOOPS = {"one step": (1, 0.02, 0.0), "a step each second": (1, 1.0, 0.0), "learning": (24, 0.002, 0.15), "long": (24, 0.05, 5.0)}  # fmt: skip


def _periods(loop: str, pauses: bool) -> Iterator[list[float]]:
    """The pauses before the steps of each period, seconds; one of them begins with a pause that is longer than usual."""
    count, step_s, learning_s = LOOPS[loop]
    passed_s, paused = 0.0, not pauses
    while passed_s < 70:
        late_s = 2.0 + learning_s if passed_s > 20 and not paused else 0.0
        paused = paused or late_s > 0
        yield [learning_s + step_s + late_s, *[step_s] * (count - 1)]
        passed_s += learning_s + late_s + count * step_s


@pytest.mark.parametrize(
    ("loop", "pauses", "near"),
    [*((loop, False, 0.01) for loop in LOOPS), ("one step", True, 0.01), ("learning", True, 0.03)],
)
def test_the_current_rate_covers_whole_periods_also_after_a_long_pause(
    loop: str, pauses: bool, near: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, look_ns, folder = SECOND_NS, 2 * SECOND_NS, make_locked(tmp_path / PREFIX)
    monkeypatch.setattr(gmg_probe, "monotonic_ns", lambda: now_ns)
    monkeypatch.setattr(gmg_probe, "folder", str(folder.path))
    monkeypatch.setattr(gmg_probe, "_counts", gmg_probe._Counts())  # type: ignore[no-untyped-call]
    step = gmg_probe._count_step(lambda _: None, "num_envs", "vector")  # type: ignore[no-untyped-call]
    environment = SimpleNamespace(num_envs=8)
    seen, ends, counts, done = [], [], Counts(folder), 0
    for period in _periods(loop, pauses):
        for pause_s in period:
            if (
                pause_s < 2 + LOOPS[loop][2] and now_ns + pause_s * SECOND_NS > look_ns
            ):  # during a long one it is the rate so far
                counts.read(now_ns / SECOND_NS)
                seen.append((now_ns / SECOND_NS, counts.rate))
                look_ns = now_ns + SECOND_NS
            now_ns += round(pause_s * SECOND_NS)
            step(environment)
            done += 8
        ends.append((now_ns / SECOND_NS, done))
    longest_s = 10 + 3 + len(LOOPS[loop]) + sum(LOOPS[loop][1:])
    for at, rate in seen:
        windows = [
            (steps - before) / (end - begin)
            for end, steps in ends
            if at - max(4.0, LOOPS[loop][2] + 2) < end <= at + 0.01
            for begin, before in ends
            if 8 <= end - begin <= longest_s
        ]
        if windows and at > 30:
            assert rate is not None
            assert (1 - near) * min(windows) <= rate <= (1 + near) * max(windows), (
                at,
                rate,
                min(windows),
                max(windows),
            )
    last = counts.rate
    counts.read(now_ns / SECOND_NS)
    for second in range(40):  # it takes long to end
        counts.read(now_ns / SECOND_NS + second)
    counts.close()
    assert counts.rate == pytest.approx(last, rel=0.1)
    assert counts.env_steps == done - 8  # the time is that from the end of the first step


def test_a_process_that_starts_late_is_counted(tmp_path: Path) -> None:
    folder = make_locked(tmp_path / PREFIX)
    counts, now_ns = Counts(folder), time.monotonic_ns()
    os.utime(folder.path, (0, 0))  # nothing was made lately
    for pid, phase in (("8", 0), ("9", gmg_probe.IMPORTING)):
        counts.read(now_ns / SECOND_NS)
        assert (counts.active, counts.simulator) == (phase > 0, False)
        words = dict.fromkeys(gmg_probe.NAMES, 0) | {"magic": gmg_probe.MAGIC, "phase": phase, "phase_ns": now_ns}
        (folder.path / pid).write_bytes(gmg_probe.WORDS.pack(*words.values()))
    counts.read(now_ns / SECOND_NS)
    assert counts.simulator
    counts.close()


def test_a_scripts_files_do_not_use_up_the_engines_descriptors(tmp_path: Path) -> None:
    counts, before = Counts(folder := make_locked(tmp_path / PREFIX)), len([*Path("/proc/self/fd").iterdir()])
    words = dict.fromkeys(gmg_probe.NAMES, 0) | {"magic": gmg_probe.MAGIC, "phase": gmg_probe.IMPORTING}
    for number in range(900):
        (folder.path / f"{number}{'.reports' if number % 2 else ''}").write_bytes(gmg_probe.WORDS.pack(*words.values()))
    (folder.path / ring.SAVED).touch()
    for _ in range(50):
        counts.read(time.monotonic())
        assert counts.read_reports() == ([], [])
    assert counts.simulator
    assert len(counts._counters) == MAX_PROCESSES
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 10
    counts.close()


def test_the_reports_of_a_process_are_found_beside_the_counts_of_many_others(tmp_path: Path) -> None:
    """As of a learner, which saves checkpoints, beside 64 actors, which step environments."""
    counts = Counts(folder := make_locked(tmp_path / PREFIX))
    for number in range(MAX_PROCESSES):
        (folder.path / str(number)).touch()
    counts.read(time.monotonic())
    record = ring.RECORD.pack(ring.RECORD.size + 8, 0, 7, 0.5, 1) + b"loss\0\0\0\0"
    data = ring.HEADER.pack(ring.MAGIC, len(record), 0, 1) + record.ljust(ring.CAPACITY, b"\0")
    (folder.path / f"99{ring.SUFFIX}").write_bytes(data)
    counts.read(time.monotonic())
    assert [metric.name for metric in counts.read_reports()[0]] == ["loss"]
    counts.close()


def test_a_process_is_counted_although_the_folder_was_removed(tmp_path: Path) -> None:
    """As systemd removes the runtime folder at the user's last logout."""
    counts, words = Counts(folder := make_locked(tmp_path / PREFIX)), dict.fromkeys(gmg_probe.NAMES, 0)
    words |= {"magic": gmg_probe.MAGIC, "phase": gmg_probe.IMPORTING}
    with (folder.path / "7").open("w+b") as file:
        file.write(gmg_probe.WORDS.pack(*words.values()))
        file.flush()
        counts.read(time.monotonic())
        shutil.rmtree(folder.path)
        file.seek(0)
        file.write(gmg_probe.WORDS.pack(*(words | {"phase": gmg_probe.STEPPING}).values()))
    counts.read(time.monotonic())
    assert counts.phase is not None
    assert counts.phase[0] is Phase.RUNNING
    counts.close()


def test_saved_files_are_seen_after_the_folder_was_removed(tmp_path: Path) -> None:
    (parent := tmp_path / "runtime").mkdir(mode=0o700)
    counts = Counts(folder := make_locked(parent / PREFIX))
    (folder.path / ring.SAVED).write_bytes(b"\nstate 5 6 7 8 9 2f61\n")
    assert [saved.path for saved in counts.read_reports()[1]] == ["/a"]
    (parent / "kept").mkdir()
    shutil.move(folder.path / ring.SAVED, parent / "kept")  # keeps its inode number in use
    shutil.move(parent / "kept", tmp_path)
    shutil.rmtree(parent)
    counts.read(time.monotonic())
    assert counts.trouble is not None
    assert "was removed" in counts.trouble
    parent.mkdir(mode=0o700)
    counts.read(time.monotonic())
    assert counts.trouble is None
    (folder.path / ring.SAVED).write_bytes(b"\nstate 5 6 7 8 9 2f612f61626364\n")
    assert [saved.path for saved in counts.read_reports()[1]] == ["/a/abcd"]
    counts.close()
    assert not folder.path.exists()


def test_only_the_file_that_a_call_saves_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stable-Baselines3 adds a suffix; another user may have made a file, or a link to a newer one, under the other name."""
    lines, report_saved = list[bytes](), cast("Any", ring.report_saved)
    monkeypatch.setattr(ring, "_append", lines.append)
    for name in ("ppo", "ppo.zip", "model.pt", "model.pt.zip"):
        (tmp_path / name).write_text("x")

    def reported(name: str, suffix: str) -> str:
        report_saved("state", 5, tmp_path / name, suffix)
        return Path(bytes.fromhex(lines[-1].split()[-1].decode()).decode()).name

    assert [reported(name, ".zip") for name in ("ppo", "ppo.zip", "model.pt")] == ["ppo.zip", "ppo.zip", "model.pt"]
    assert [reported(name, "") for name in ("ppo", "model.pt")] == ["ppo", "model.pt"]


def removals_have_ended() -> bool:
    return not any("_remove_abandoned" in thread.name for thread in threading.enumerate())


def test_a_script_cannot_claim_the_saved_files_of_another_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can only write a file with the other's PID; neither job then continues from what the killed engine had not read."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    (spare := tmp_path / "spare").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr("gmg_tui.scripts.probe.folders._SPARE_PARENT", spare)
    for name, pids in {"61": ("1", "2"), "62": ("2",), "63": ("3",)}.items():
        folders = [
            make_locked(parent / f"{PREFIX}one-{zlib.crc32(b'/one'):08x}.000000{name}") for parent in (runtime, spare)
        ]
        for pid in pids:
            (folders[0].path / pid).touch()
        with_saved = folders[name == "63"]  # in the spare folder after a logout
        (with_saved.path / ring.SAVED).write_bytes(f"\nstate 5 6 7 8 9 2f{name}\n".encode() * 10_000)
        for folder in folders:
            os.close(folder.descriptor)
            os.utime(folder.path, (time.time() - 60.0,) * 2)
    saved = read_abandoned(Path("/one"))
    assert {pid: {file.path for file in files} for pid, files in saved.items()} == {1: {"/a"}, 2: set(), 3: {"/c"}}
    assert max(map(len, saved.values())) == MAX_JOB_CHECKPOINTS
    assert read_abandoned(Path("/one")) == saved, "the engine may end before it has stored them"
    assert read_abandoned(Path("/another/one")) == {}
    folders = make_folders(Path("/another/one"))
    wait_until(removals_have_ended)
    assert read_abandoned(Path("/one")) == saved
    folders += make_folders(Path("/one"))
    wait_until(removals_have_ended)  # without looking into the folders, which locks them
    assert read_abandoned(Path("/one")) == {}
    for folder in folders:
        folder.remove(1)


def test_files_that_were_saved_after_a_logout_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the user's last logout systemd removes the runtime folder, which only root can make again."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    counts = Counts(*make_folders(Path("/logout")))
    assert counts.folder is not None
    spare = Path(counts.environ["GMG_PROBE_SPARE_DIR"])
    code = """
import sys, gmg_probe, gmg_reports
gmg_probe.start(gmg_reports.os.environ["GMG_PROBE_DIR"], gmg_reports)
for line in sys.stdin:
    gmg_reports.report_saved("state", 5, line.strip())
    print(flush=True)
"""
    command, environ = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": SITE, **counts.environ}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as script:
        assert script.stdin is not None
        assert script.stdout is not None

        def save(name: str) -> list[str]:
            (tmp_path / name).touch()
            print(tmp_path / name, file=script.stdin, flush=True)
            script.stdout.readline()
            counts.read(time.monotonic())
            return [Path(saved.path).name for saved in counts.read_reports()[1]]

        assert save("first") == ["first"]
        shutil.rmtree(runtime)
        assert save("second") == ["second"]
        assert counts.trouble is None
        runtime.mkdir(mode=0o700)
        counts.folder.touch()  # another user's
        assert save("third") == ["third"]
        assert counts.trouble is None
        script.stdin.close()
    counts.close()
    assert not spare.exists()


def test_counts_whose_time_stands_still_take_no_more_memory(tmp_path: Path) -> None:
    counts, now_ns = Counts(folder := make_locked(tmp_path / PREFIX)), time.monotonic_ns()
    words = dict.fromkeys(gmg_probe.NAMES, 0) | {"magic": gmg_probe.MAGIC, "phase": gmg_probe.STEPPING, "kind": 1}
    words |= {
        "environments": 1,
        "first_environments": 1,
        "first_ns": now_ns - SECOND_NS,
        "last_ns": now_ns,
        "mark_ns": now_ns,
    }
    for steps in range(2, 1000):
        words |= {"steps": steps, "environment_steps": steps, "mark_steps": steps}
        (folder.path / "7").write_bytes(gmg_probe.WORDS.pack(*words.values()))
        counts.read(now_ns / SECOND_NS)
    (counter,) = counts._counters.values()
    assert max(len(counter._last), len(counter._marks)) <= 256
    assert counts.steps == 999
    counts.close()


def test_numbers_that_the_probe_cannot_have_written_are_ignored(tmp_path: Path) -> None:
    folder = make_locked(tmp_path / PREFIX)
    counts, now_ns = Counts(folder), time.monotonic_ns()
    good = dict.fromkeys(gmg_probe.NAMES, 0) | {
        "magic": gmg_probe.MAGIC,
        "phase": gmg_probe.STEPPING,
        "kind": 1,
        "environments": 8,
        "first_environments": 8,
        "first_ns": now_ns - 2 * SECOND_NS,
        "last_ns": now_ns,
        "steps": 101,
        "environment_steps": 808,
    }
    os.mkfifo(folder.path / "8")
    (folder.path / "9").symlink_to("7")
    (folder.path / "²").write_bytes(gmg_probe.WORDS.pack(*good.values()))
    for wrong in (
        {},
        {"environments": -5},
        {"environment_steps": 3 << 60},
        {"last_ns": 1 << 62},
        {"kind": 99},
        {"phase": -1},
    ):
        (folder.path / "7").write_bytes(gmg_probe.WORDS.pack(*(good | {"steps": 101 + len(wrong)} | wrong).values()))
        counts.read(now_ns / SECOND_NS)
        assert (counts.n_envs, counts.rate, counts.steps) == (8, pytest.approx(400), 101)
        assert counts.stepping_pid == 7
    for printed, greatest in ((3.0, 400.0), (500.0, 500.0)):  # such as each environment's rate
        fps = counts.fps(Fps(last=3.0, mean=3.0, max=printed, samples=1))
        assert (fps.last, fps.mean, fps.max) == (3.0, pytest.approx(400), pytest.approx(greatest))
    counts.close()
    assert list(tmp_path.iterdir()) == []


def test_the_greatest_rate_is_not_below_the_mean_of_an_average_that_grows() -> None:
    rate = PrintedRate()
    for second, printed in enumerate((100.0, 200.0, 300.0)):
        rate.add([printed], float(second), smoothed=True, n_envs=4)
    fps = rate.fps()
    assert fps.mean is not None
    assert fps.max == fps.mean > 300.0


# The settled rate on its way: from a worker's lines to the summary, the store, and what an edit is compared with

_LONG = ("--lines", "0", "--fps", "128000")


async def test_the_summary_contains_the_settled_and_the_printed_rate() -> None:
    # Genesis' average is far from settled after so few lines.
    async with running(spec_for("--lines", "20", "--fps", "128000", cpu=2)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
        summary = run.summary()
    lasts = [worker["fps"]["last"] for worker in summary["workers"]]
    settled = [worker["fps"]["settled"] for worker in summary["workers"]]
    assert all(rate == pytest.approx(128_000, rel=0.01) for rate in settled)
    assert all(last < 100_000 for last in lasts)
    assert summary["total_fps"] == sum(lasts)
    assert summary["total_fps_settled"] == pytest.approx(sum(settled))


def _ends_in_a_gap(store: Path, slot: str) -> bool:
    with open_store(store) as stored:
        return [row.fps is None for row in stored.metrics(10_000) if row.slot == slot][-1:] == [True]


async def test_a_rate_without_recent_lines_is_marked_and_leaves_a_gap() -> None:
    async with running(spec_for(*_LONG, cpu=2)) as run:
        await run.until(lambda _: all(worker.current_fps is not None for worker in run.snapshot.workers))
        pid = run.worker("cpu0").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await run.until(lambda _: run.worker("cpu0").alert("silent"))
            silent, other = run.worker("cpu0"), run.worker("cpu1")
            alert = silent.alert("silent")
            assert run.snapshot.time - alert.since > 4.9  # two clocks
            assert (silent.state, silent.current_fps) == (WorkerState.RUNNING, None)
            assert silent.fps is not None
            assert other.alert("silent") is None
            assert total_fps(run.snapshot.workers) == other.fps.settled
            await eventually(lambda: _ends_in_a_gap(run.folder / STORE, "cpu0"))
        finally:
            os.kill(pid, signal.SIGCONT)
        await run.until(lambda _: run.worker("cpu0").current_fps is not None)
