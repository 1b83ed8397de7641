"""The counts of many processes."""

from pathlib import Path

import pytest

from gmg_tui.machine.folders import make_locked
from gmg_tui.scripts.probe.counts import MAX_PROCESSES, Counts
from gmg_tui.scripts.probe.folders import PREFIX
from gmg_tui.scripts.probe.site import gmg_probe
from gmg_tui.scripts.probe.site import gmg_reports as ring

NO_PID = 4_194_305
"""Larger than any process ID (pid_max)."""
SECOND_NS = 1_000_000_000


def test_processes_one_after_another_are_not_added_up_and_have_room(tmp_path: Path) -> None:
    """As in a benchmark: Genesis can be initialised once per process."""
    counts, count = Counts(folder := make_locked(tmp_path / PREFIX)), 2 * MAX_PROCESSES
    started = dict.fromkeys(gmg_probe.NAMES, 0) | {"magic": gmg_probe.MAGIC, "phase": gmg_probe.STEPPING, "steps": 91}
    started |= {"environments": 8, "first_environments": 8, "environment_steps": 91 * 8}
    for number in range(count):
        first_ns = SECOND_NS * (number + 1)
        last_ns = first_ns + 9 * SECOND_NS // 10
        words = started | {"first_ns": first_ns, "last_ns": last_ns}
        (folder.path / str(NO_PID + number)).write_bytes(gmg_probe.WORDS.pack(*words.values()))
        record = ring.RECORD.pack(ring.RECORD.size + 8, 0, number, float(number), 1) + b"loss\0\0\0\0"
        data = ring.HEADER.pack(ring.MAGIC, len(record), 0, 1) + record.ljust(ring.CAPACITY, b"\0")
        (folder.path / f"{NO_PID + number}{ring.SUFFIX}").write_bytes(data)
        counts.read(last_ns / SECOND_NS)
        read = [metric.value for _ in range(2) for metric in counts.read_reports()[0]]
        counts.read(last_ns / SECOND_NS)
        read += [metric.value for metric in counts.read_reports()[0]]
        assert (counts.rate, counts.n_envs, counts.env_steps) == (pytest.approx(800), 8, 720 * (number + 1))
        assert read == [number]
    assert (counts.steps, counts.seconds) == (91 * count, pytest.approx(count - 0.1))
    counts.close()
