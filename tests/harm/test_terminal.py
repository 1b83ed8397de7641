"""Terminals that are not read, hang up or die, and others that come and go, affect no worker."""

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.ui.log.source import MAX_ROWS
from tests.engine.harness import FAKE
from tests.patience import wait_until
from tests.terminal.screen import Terminal

from .sessions import STEPS, newest_step, snapshot_of, steps, stop, the_session, written

pytestmark = pytest.mark.terminal


def _written_bytes(pid: int) -> int:
    """What the process has written in all its life, to terminals too."""
    metrics = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(metrics["wchar"])


def _block(terminal: Terminal) -> None:
    """Stop reading, and wait until the interface writes no more, although it is asked to show tiles and table in turn."""
    terminal.stall()
    written_bytes = [-1, _written_bytes(terminal.pid)]
    while written_bytes[-1] != written_bytes[-2]:
        for _ in range(20):  # an even number, so that the view is the same at the end
            terminal.press("t")
            time.sleep(0.05)
        written_bytes.append(_written_bytes(terminal.pid))


@pytest.mark.slow
def test_a_stalled_terminal_stops_no_worker_and_catches_up(tmp_path: Path) -> None:
    stamps = {f"cpu{number}": tmp_path / f"stamps-cpu{number}" for number in range(2)}
    with Terminal("--cpu", "2", FAKE, *STEPS, "--stamp", str(tmp_path / "stamps-{slot}")) as terminal:
        terminal.until("cpu0 log", lambda text: newest_step(text) > 20)
        entry = the_session()
        _block(terminal)
        before = {slot: written(path) for slot, path in stamps.items()}
        # While the interface is blocked the engine reads on: all lines reach the files.
        wait_until(lambda: all(len(steps(entry, slot)) > before[slot] + 60 for slot in stamps))
        now = written(stamps["cpu0"])
        terminal.resume()
        terminal.until(lambda text: newest_step(text) >= now)
        terminal.press("?")
        terminal.until("─ Help ─")
    stop(entry)
    for slot, path in stamps.items():
        assert steps(entry, slot)[: written(path)] == list(range(written(path)))


@pytest.mark.parametrize("how", ["SIGKILL", "the window is closed", "closed while it is not read"])
def test_a_lost_interface_does_not_affect_the_session(how: str) -> None:
    with Terminal("--cpu", "2", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: newest_step(text) > 20)
        entry = the_session()
        before = snapshot_of(entry)
        if how == "SIGKILL":
            os.kill(terminal.pid, signal.SIGKILL)
        else:
            if "not read" in how:
                _block(terminal)
            terminal.hang_up()
        wait_until(lambda: not terminal.alive)
    wait_until(lambda: snapshot_of(entry).clients == 1)  # the one that looks
    with Terminal("attach", columns=80, rows=24) as again:
        printed = snapshot_of(entry).workers[0].log_lines
        again.until("cpu0 log", lambda text: newest_step(text) >= printed)
        again.press("l")
        again.until("cpu1 log", lambda text: newest_step(text) >= printed)
        after = snapshot_of(entry)
        assert [worker.pid for worker in after.workers] == [worker.pid for worker in before.workers]
        assert after.elapsed_s > before.elapsed_s
        lines = {worker.slot: worker.log_lines for worker in after.workers}
    stop(entry)
    for slot in ("cpu0", "cpu1"):
        numbers = steps(entry, slot)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > lines[slot] - 20


def test_two_interfaces_of_different_sizes_show_one_session_and_either_may_leave() -> None:
    with Terminal("--cpu", "2", FAKE, *STEPS, columns=160, rows=48) as large:
        large.until("cpu0 log")
        entry = the_session()
        with Terminal("attach", entry.name, columns=60, rows=15) as small:
            small.until("cpu0", lambda text: newest_step(text) > 0)
            assert snapshot_of(entry).clients == 3
            small.press("l", "j")  # beside the first or under it
            small.until("▸ cpu1")
            small.press("X")
            small.until("Kill cpu1 now?")
            small.press("y")
            for terminal in (large, small):
                terminal.until("stopped")
            large.press("d")
            assert large.until_ended() == 0
            printed = snapshot_of(entry).workers[0].log_lines
            small.press("h", "k")
            small.until("▸ cpu0", lambda text: newest_step(text) > printed)
            assert [worker.state for worker in snapshot_of(entry).workers] == ["running", "stopped"]
            small.press("d")
            assert small.until_ended() == 0
    stop(entry)


def test_an_interface_ends_with_a_message_when_its_engine_is_killed() -> None:
    with Terminal("--cpu", "1", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: newest_step(text) > 0)
        entry = the_session()
        os.kill(entry.record.session.engine_pid, signal.SIGKILL)
        assert terminal.until_ended() == 1
        _, restored, message = terminal.raw.decode().rpartition("\x1b[?1049l")
        assert restored, "the terminal was not restored"
        assert f"gmg-tui: the engine of session {entry.name} was lost: " in message
        assert "engine.log" in message
    wait_until(lambda: sessions.find(entry.name, running=False).state == "lost")


def test_an_interface_shows_that_its_engine_is_stopped_and_can_be_left_meanwhile() -> None:
    with Terminal("--cpu", "1", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: newest_step(text) > 0)
        entry = the_session()
        engine = psutil.Process(entry.record.session.engine_pid)
        engine.suspend()
        before = newest_step(terminal.text())
        terminal.until("engine silent for ")
        terminal.press("?")
        terminal.until("─ Help ─")
        terminal.press("\x1b")
        terminal.until(lambda text: "─ Help ─" not in text)
        terminal.press("d")
        assert terminal.until_ended() == 0
        engine.resume()
    with Terminal("attach") as terminal:
        terminal.until("cpu0 log", lambda text: newest_step(text) > before)
    stop(entry)
    numbers = steps(entry, "cpu0")
    assert numbers == list(range(len(numbers)))


def _new(text: str) -> int:
    """How many lines have come since the log was paused; -1 while it is followed."""
    match = re.search(r"([\d,]+) new lines?", text)
    return int(match[1].replace(",", "")) if match else -1


def test_a_paused_log_stays_under_a_flood_and_resumes_with_the_newest_lines() -> None:
    with Terminal("--cpu", "1", FAKE, "--flood", "--lines", "0", columns=120, rows=24) as terminal:
        terminal.until("cpu0 log", "following", lambda text: text.count(" of the flood") > 9)
        entry = the_session()
        terminal.press("\x1b[5~")
        paused = terminal.until(lambda text: _new(text) > 0).splitlines()[-10:-1]
        text = terminal.until(lambda text: _new(text) > 2 * MAX_ROWS)
        assert text.splitlines()[-10:-1] == paused
        terminal.press("\x1b[F")
        terminal.until("following", lambda text: text.count(" of the flood") > 9, lambda text: paused[-1] not in text)
    stop(entry)
