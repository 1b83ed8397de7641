"""Xids and errors of a GPU's memory stand in the session's store, and in what is reported of it."""

from __future__ import annotations

from pathlib import Path

from gmg_tui import session
from gmg_tui.engine.records.health_events import HealthEvents
from gmg_tui.model import GpuHealth, GpuSample, RunSpec, Xid
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import Event
from tests.harm.patience import eventually
from tests.nvml_sim import Sim

from .harness import running, spec_for


def _events(spec: RunSpec) -> list[Event]:
    with open_store(Path(spec.folder) / session.STORE) as stored:
        return stored.events


def _texts(events: HealthEvents, seen: GpuHealth | None) -> list[str]:
    return [text for _, text, _ in events.take({"GPU-1": GpuSample(uuid="GPU-1", health=seen)}, ())]


def test_health_events_are_logged_once_and_storms_are_rate_limited() -> None:
    events = HealthEvents()
    assert _texts(events, None) == []
    first = GpuHealth(ecc_uncorrected=0, ecc_corrected=2)
    assert _texts(events, first) == ["GPU-1: 2 corrected ECC errors, when the session began"]
    assert _texts(events, first) == []
    texts = [
        text
        for count in range(1, 101)
        for text in _texts(events, GpuHealth(ecc_uncorrected=0, ecc_corrected=2, xids=(Xid(13, 1.0, count),)))
    ]
    assert len(texts) == 7
    assert texts[0].startswith("GPU-1: Xid 13: a kernel failed, as by an index out of range; read")
    assert "Xid 13 (64 times by now)" in texts[-1]
    worse = GpuHealth(ecc_uncorrected=1, ecc_corrected=5, remap_pending=True, nvlink_recoveries=1)
    assert [text.removeprefix("GPU-1: ") for text in _texts(events, worse)] == [
        "1 uncorrected ECC error, 1 more than before",
        "5 corrected ECC errors, 3 more than before",
        "1 recovered NVLink error, when the session began",
        "a memory row waits to be replaced, by the next reset of the GPU",
    ]


async def test_the_report_shows_gpu_and_time_of_each_xid(sim: Sim) -> None:
    spec = spec_for("--lines", "0", cpu=None, gpus="0,1", interval_s=0.1)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: all(worker.pid for worker in s.workers))
        sim.gpus[1].xids = [79]
        sim.write()
        await eventually(lambda: "xid" in {event.kind for event in _events(spec)})
    (event,) = [row for row in _events(spec) if row.kind == "xid"]
    assert event.slot == "gpu1"
    assert event.text.startswith(f"GPU 1 ({sim.gpus[1].uuid}): Xid 79: the GPU has fallen off the bus; reboot")
