"""The Python stacks of a worker in the Why tab."""

import msgspec

from gmg_tui.model import RankGroup, Stacks, WorkerState
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import asked, press

WAITS = """\
Thread 0x00007f12 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f99 (most recent call first):
  File "/home/ada/sim/loop.py", line 12 in all_reduce
  File "/home/ada/sim/train.py", line 48 in main
"""
READS = """\
Current thread 0x00007f98 (most recent call first):
  File "/home/ada/sim/data.py", line 7 in read_batch
  File "/home/ada/sim/train.py", line 48 in main
"""
STOPPED = "it is stopped by a signal and cannot answer; kill -CONT 4712"


def _engine() -> FakeEngine:
    engine = play.edited_engine()
    group = RankGroup("g0", ("gpu0", "gpu1", "gpu2"), WorkerState.RUNNING)
    grouped = msgspec.structs.replace(engine.snapshot, groups=(group,))
    engine.welcome = msgspec.structs.replace(engine.welcome, snapshot=grouped)
    engine.stacks_of = (Stacks("gpu0", 0, WAITS), Stacks("gpu1", 1, READS), Stacks("gpu2", 2, error=STOPPED))
    return engine


async def test_the_stacks_of_all_ranks_are_asked_for_once_and_scrolled() -> None:
    engine = _engine()
    app = play.app_of(engine)
    async with app.run_test(size=(80, 20)) as pilot:
        engine.answers.clear()
        await press(pilot, "do:screen.stacks")
        await play.sees(pilot, "Waiting for the worker")
        engine.answers.set()
        await play.sees(pilot, "rank 0 · gpu0", "line 12 in all_reduce")
        await press(pilot, "pagedown")
        await play.sees(pilot, "line 324 in wait")
        text = play.shown(app)
        assert text.index("Current thread") < text.index("Thread 0x00007f12")
        await press(pilot, "end")
        await play.sees(pilot, "line 7 in read_batch", "rank 2 · gpu2", "it is stopped by a signal")
        await press(pilot, "home")
        await play.sees(pilot, "verdict")
        assert asked(engine).count(("stacks", "gpu0")) == 1


async def test_a_refusal_is_shown() -> None:
    engine = _engine()
    engine.refuse = "no job has run on gpu0 yet"
    async with play.app_of(engine).run_test(size=(100, 30)) as pilot:
        await press(pilot, "do:screen.stacks")
        await play.sees(pilot, "no job has run on gpu0 yet")
