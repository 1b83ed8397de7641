"""The Python stacks of the ranks of a group: side by side, or one after another, requested once."""

from __future__ import annotations

import msgspec

from gmg_tui.model import RankGroup, Stacks, WorkerState
from gmg_tui.ui.drawing import safe
from gmg_tui.ui.pages import stacks
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, press

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
    engine = stage.engine()
    group = RankGroup("g0", ("gpu0", "gpu1", "gpu2"), WorkerState.RUNNING)
    grouped = msgspec.structs.replace(engine.snapshot, groups=(group,))
    engine.welcome = msgspec.structs.replace(engine.welcome, snapshot=grouped)
    engine.stacks_of = (
        Stacks("gpu0", 0, WAITS),
        Stacks("gpu1", 1, READS),
        Stacks("gpu2", 2, error=STOPPED),
    )
    return engine


def test_frames_are_shortened_and_the_current_thread_is_first() -> None:
    assert stacks.frames(Stacks("gpu0", 0, WAITS))[:3] == [
        "Current thread 0x00007f99",
        "  all_reduce  loop.py:12",
        "  main  train.py:48",
    ]
    assert stacks.frames(Stacks("gpu0", 0, READS))[-2:] == ["  read_batch  data.py:7", "  main  train.py:48"]


async def test_ranks_are_side_by_side_when_they_fit_and_common_frames_are_dim() -> None:
    engine = _engine()
    app = stage.app(engine)
    async with app.run_test(size=(160, 48)) as pilot:
        await press(pilot, "do:stacks")
        await play.sees(pilot, "rank 0 · gpu0", "rank 1 · gpu1", "rank 2 · gpu2", STOPPED[:30])
        (row,) = [row for row in play.screen(app) if "rank 0 ·" in row]
        assert "rank 1 ·" in row
        assert "rank 2 ·" in row
        assert ("stacks", "gpu0") in asked(engine)
        strips = app.screen._compositor.render_strips()
        colours = {part.text.strip(): part.style and part.style.color for strip in strips for part in strip}
        assert colours["all_reduce  loop.py:12"] == colours["read_batch  data.py:7"] != colours["main  train.py:48"]


async def test_ranks_are_stacked_in_a_narrow_terminal() -> None:
    app = stage.app(_engine())
    async with app.run_test(size=(60, 14)) as pilot:
        await press(pilot, "do:stacks")
        await play.sees(pilot, "rank 0 · gpu0", "loop.py:12")
        assert "rank 2" not in play.shown(app)
        await press(pilot, "end")
        await play.sees(pilot, "rank 2 · gpu2", "it is stopped by a signal")
        await press(pilot, "home")
        await play.sees(pilot, "rank 0 · gpu0")


async def test_stacks_are_requested_again_and_copied() -> None:
    engine = _engine()
    app = stage.app(engine)
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, "do:stacks")
        await play.sees(pilot, "rank 0 · gpu0")
        engine.stacks_of = (Stacks("gpu0", 0, error="no process runs"),)
        await press(pilot, "do:screen.again")
        await play.sees(pilot, "no process runs")
        assert asked(engine).count(("stacks", "gpu0")) == 2
        await press(pilot, "do:screen.copy")
        assert app.clipboard == "rank 0 · gpu0\nno process runs"
        await press(pilot, "escape")
        await play.sees(pilot, "gpu0 log")


async def test_keys_work_during_a_slow_request_which_is_sent_once() -> None:
    engine = _engine()
    async with stage.app(engine).run_test(size=(100, 30)) as pilot:
        engine.answers.clear()
        await press(pilot, "do:stacks")
        await play.sees(pilot, "asking")
        await press(pilot, "do:screen.again", "do:screen.again")
        assert asked(engine).count(("stacks", "gpu0")) == 1
        engine.answers.set()
        await play.sees(pilot, "rank 0 · gpu0")


async def test_a_refusal_is_shown() -> None:
    engine = _engine()
    async with stage.app(engine).run_test(size=(100, 30)) as pilot:
        engine.refuse = "no job has run on gpu0 yet"
        await press(pilot, "do:stacks")
        await play.sees(pilot, "no job has run on gpu0 yet")


async def test_hostile_text_is_shown_literally() -> None:
    engine = _engine()
    engine.stacks_of = (Stacks("gpu0", 0, f'{stage.EVIL}\n  File "{stage.EVIL}", line 1 in {stage.EVIL}'),)
    app = stage.app(engine)
    async with app.run_test(size=(100, 30)) as pilot:
        await press(pilot, "do:stacks")
        await play.sees(pilot, "[/] [bold] [/tmp/x]")
        assert all(safe(row) == row for row in play.screen(app))
