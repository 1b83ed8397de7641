"""Internal errors: they are shown once, and no worker ends because of them."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gmg_tui.engine.faults import Faults
from gmg_tui.model import RunSpec, WorkerState
from tests.patience import LONG_S, eventually
from tests.workers import texts

from .harness import program, running, spec_for, sweep_for

_PARTS = (
    ("engine.hardware", "GpuSamples", "expire"),
    ("engine.hardware", "GpuSamples", "current"),
    ("engine.output.history", "History", "add"),
    ("engine.attempts.local_attempt", "LocalAttempt", "inspect"),
    ("engine.records.recorder", "Recorder", "_record"),
    ("engine.records.recorder", "Recorder", "beat"),
    ("engine.records.session_files", "SessionFiles", "end"),
    ("engine.records.session_files", "SessionFiles", "run"),
    ("engine.notify", "Notifications", "add"),
    ("engine.attempts.local_attempt", "LocalAttempt", "measure"),
    ("engine.attempts.local_attempt", "LocalAttempt", "poll"),
    ("engine.records.recorder", "Recorder", "_refresh"),
    ("engine.workers.slot", "EngineSlot", "diagnose"),
    ("engine.workers.slot", "EngineSlot", "view"),
    ("machine.slurm", "AllocationWatch", "run"),
    ("model.tried", "TriedArguments", "add"),
)
_FAULTY = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    from importlib import import_module

    def fault(*_, **__):
        raise KeyError("a fault of ours")

    for module, *names in {parts!r}:
        target = import_module("gmg_tui." + module)
        for name in names[:-1]:
            target = getattr(target, name)
        setattr(target, names[-1], fault)
"""
_SCRIPT = """
import time
for number in range(40):
    print("line", number, flush=True)
    time.sleep(0.1)
"""


def _part(module: str, kind: str, name: str) -> object:
    return getattr(getattr(import_module(f"gmg_tui.{module}"), kind), name)


def _plain(script: Path) -> RunSpec:
    script.write_text(_SCRIPT)
    return spec_for(script=str(script), cpu=2)


def _sweep(script: Path) -> RunSpec:
    script.write_text(_SCRIPT)
    return sweep_for([{}, {}, {}], program(script=str(script)), cpu=2)


@pytest.mark.parametrize("make", [_plain, _sweep])
async def test_workers_end_normally_despite_a_fault_in_every_observer(
    tmp_path: Path, make: Callable[[Path], RunSpec]
) -> None:
    assert all(callable(_part(*names)) for names in _PARTS), "a part that is gone has no fault"
    (tmp_path / "sitecustomize.py").write_text(_FAULTY.format(parts=_PARTS))
    async with running(make(tmp_path / "script.py"), {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
        assert {worker.state for worker in snapshot.workers} == {WorkerState.FINISHED}
        notes = [note for note in texts(snapshot.alerts) if "internal error (KeyError" in note]
        assert len(notes) == len(set(notes)) >= 8
        await run.leave()
        assert await run.process.wait() == 0
        logs = [path.read_bytes() for path in (run.folder / "logs").iterdir()]
        assert len(logs) in (2, 3)
        assert all(log.count(b"line") == 40 for log in logs)
    assert 8 <= run.log().count("Traceback") <= 2 * len(_PARTS)


async def test_a_component_that_fails_to_stop_does_not_block_others(tmp_path: Path) -> None:
    parts = (("session.store.writer", "StoreWriter", "close"), ("engine.notify", "Notifications", "finish"))
    (tmp_path / "sitecustomize.py").write_text(_FAULTY.format(parts=parts))
    async with running(_plain(tmp_path / "script.py"), {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        assert await run.process.wait() == 0
        assert run.record().ended is not None
        assert not Path(run.spec.socket).exists()
    assert run.log().count("failed to end cleanly") == 2


_FAULTY_READER = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    from gmg_tui.scripts.genesis.output.reader import Reader
    feed = Reader.feed
    def faulty(self, block, *more):
        if b"poison" in block:
            raise ZeroDivisionError
        return feed(self, block, *more)
    Reader.feed = faulty
"""
_POISON = """
import sys
print("poison" if sys.argv[1] == "0" else "water")
for number in range(20000):
    print("line", number)
print("[Genesis] [07:00:00] [INFO] Running at 12.00 FPS (1.00 FPS per env, 12 envs).")
"""


async def test_a_parser_error_does_not_affect_the_end_of_its_worker(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAULTY_READER)
    script = tmp_path / "script.py"
    script.write_text(_POISON)
    spec = spec_for("{i}", script=str(script), cpu=2)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until(lambda snapshot: snapshot.ended)
        poisoned, well = run.snapshot.workers
        assert {poisoned.state, well.state} == {WorkerState.FINISHED}
        assert any("could not be parsed (internal error: ZeroDivisionError)" in text for text in texts(poisoned.alerts))
        assert not texts(well.alerts)
        for worker, first in ((poisoned, b"poison"), (well, b"water")):
            assert run.output(worker.slot).splitlines()[:2] == [first, b"line 0"]
            assert run.output(worker.slot).count(b"\n") == 20002
    assert run.log().count("Traceback") == 1


async def test_a_failing_loop_is_reported_once_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.engine.faults._RETRY_PAUSE_S", 0.0)
    results, notes = [KeyError("a"), KeyError("b"), ValueError("c"), None], list[str]()

    async def run() -> None:
        if (result := results.pop(0)) is not None:
            raise result

    faults = Faults()
    faults.note = lambda _, text: notes.append(text or "")
    await faults.keep_running("the beat", run)
    assert results == []
    assert [note.partition(";")[0] for note in notes] == [
        "the beat: internal error (KeyError: 'a')",
        "the beat: internal error (KeyError: 'b')",
        "the beat: internal error (ValueError: c)",
    ]


async def test_the_note_of_a_fault_is_removed_once_the_part_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gmg_tui.engine.faults._RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr("gmg_tui.engine.faults._RECOVERY_S", 0.05)
    faults, notes, cleared, restarted = Faults(), dict[str, str | None](), asyncio.Event(), asyncio.Event()

    def note(subject: str, text: str | None) -> None:
        notes[subject] = text
        if text is None:
            cleared.set()

    async def run() -> None:
        if not restarted.is_set():
            restarted.set()
            raise KeyError
        await asyncio.Event().wait()

    faults.note = note
    running = asyncio.create_task(faults.keep_running("the loop", run))
    await asyncio.wait_for(cleared.wait(), LONG_S)
    assert notes == {"fault in the loop": None}
    running.cancel()
    faults.guard("records", lambda: 1 // 0)
    faults.guard("records", lambda: 1)
    assert notes["fault in records"], "another call of the part has just failed"
    await eventually(lambda: faults.guard("records", str) == "" and not notes["fault in records"])
