"""The terminal is not read, hangs up, dies; others come and go: the workers do not notice."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.ui.log_buffer import KEPT_LINES
from tests.engine.harness import FAKE
from tests.terminal.screen import Terminal

from .patience import wait_until
from .scale import full
from .sessions import STEPS, look, shown, steps, stop, the_session
from .stamps import largest_gap_s, last_number

pytestmark = pytest.mark.terminal

REDRAW = "\x0c"


def _written_bytes(pid: int) -> int:
    """What the process has written in all its life, to terminals too."""
    metrics = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(metrics["wchar"])


def _blocked(terminal: Terminal) -> bool:
    """Whether the interface can write no more, although it is asked to draw everything anew."""
    before = _written_bytes(terminal.pid)
    for _ in range(4):
        terminal.press(REDRAW)
        time.sleep(0.25)
    return _written_bytes(terminal.pid) == before


@pytest.mark.slow
def test_a_terminal_that_is_not_read_stops_no_worker_and_is_up_to_date_once_it_is_read(tmp_path: Path) -> None:
    stall_s = full(60.0, short=6.0)
    stamps = {f"cpu{number}": tmp_path / f"stamps-cpu{number}" for number in range(4)}
    with Terminal("--cpu", "4", FAKE, *STEPS, "--stamp", str(tmp_path / "stamps-{slot}")) as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > 20)
        found = the_session()
        terminal.stall()
        wait_until(lambda: _blocked(terminal))
        before = {slot: steps(found, slot)[-1] for slot in stamps}
        time.sleep(stall_s)
        # While the interface stands still the engine reads on: all lines come into the files.
        wait_until(lambda: all(steps(found, slot)[-1] - before[slot] > 20 * stall_s / 2 for slot in stamps))
        assert _blocked(terminal)
        now = last_number(stamps["cpu0"])
        terminal.resume()
        terminal.until(lambda text: shown(text) >= now)
        terminal.press("?")
        terminal.until("─ Help ─")
    stop(found)
    for slot, path in stamps.items():
        assert largest_gap_s(path) < stall_s * 2 / 3
        assert steps(found, slot)[: last_number(path)] == list(range(last_number(path)))


@pytest.mark.parametrize("how", ["SIGHUP", "SIGKILL", "the window is closed", "closed while it is not read"])
def test_an_interface_that_is_lost_leaves_the_session_as_it_was(how: str) -> None:
    with Terminal("--cpu", "2", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > 20)
        found = the_session()
        before = look(found)
        if how.startswith("SIG"):
            os.kill(terminal.pid, signal.Signals[how])
        else:
            if "not read" in how:
                terminal.stall()
                wait_until(lambda: _blocked(terminal))
            terminal.hang_up()
        wait_until(lambda: not terminal.alive)
    wait_until(lambda: look(found).clients == 1)  # the one that looks
    with Terminal("attach", columns=80, rows=24) as again:
        printed = look(found).workers[0].log_lines
        again.until("cpu0 log", lambda text: shown(text) >= printed)
        again.press("l")
        again.until("cpu1 log", lambda text: shown(text) >= printed)
        after = look(found)
        assert [worker.pid for worker in after.workers] == [worker.pid for worker in before.workers]
        assert after.elapsed_s > before.elapsed_s
        lines = {worker.slot: worker.log_lines for worker in after.workers}
    stop(found)
    for slot in ("cpu0", "cpu1"):
        numbers = steps(found, slot)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > lines[slot] - 20


def test_two_interfaces_of_different_sizes_show_one_session_and_either_may_leave() -> None:
    with Terminal("--cpu", "2", FAKE, *STEPS, columns=160, rows=48) as large:
        large.until("cpu0 log")
        found = the_session()
        with Terminal("attach", found.name, columns=60, rows=15) as small:
            small.until("cpu0", lambda text: shown(text) > 0)
            assert look(found).clients == 3
            small.press("l", "j")  # beside the first or under it
            small.until("cpu1 log")
            small.press("X")
            small.until("Kill cpu1 now?")
            small.press("y")
            for terminal in (large, small):
                terminal.until("stopped")
            large.press("d")
            assert large.until_ended() == 0
            printed = look(found).workers[0].log_lines
            small.press("h", "k")
            small.until("cpu0 log", lambda text: shown(text) > printed)
            assert [worker.state for worker in look(found).workers] == ["running", "stopped"]
            small.press("d")
            assert small.until_ended() == 0
    stop(found)


def test_an_interface_says_it_and_ends_when_its_engine_is_killed() -> None:
    with Terminal("--cpu", "1", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > 0)
        found = the_session()
        os.kill(found.record.session.engine_pid, signal.SIGKILL)
        assert terminal.until_ended() == 1
        _, left, said = terminal.raw.decode().rpartition("\x1b[?1049l")
        assert left, "the terminal was not given back"
        assert f"gmg-tui: the engine of session {found.name} was lost: " in said
        assert "engine.log" in said
    wait_until(lambda: sessions.find(found.name, running=False).state == "lost")


def test_an_interface_says_that_its_engine_is_stopped_and_can_be_left_meanwhile() -> None:
    with Terminal("--cpu", "1", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > 0)
        found = the_session()
        engine = psutil.Process(found.record.session.engine_pid)
        engine.suspend()
        before = shown(terminal.text())
        time.sleep(full(30.0, short=4.0))
        terminal.until("engine silent for ")
        terminal.press("?")
        terminal.until("─ Help ─")
        terminal.press("\x1b")
        terminal.until(lambda text: "─ Help ─" not in text)
        terminal.press("d")
        assert terminal.until_ended() == 0
        engine.resume()
    with Terminal("attach") as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > before + 60)
    stop(found)
    numbers = steps(found, "cpu0")
    assert numbers == list(range(len(numbers)))


def _below(text: str) -> int:
    """How many lines the held log has below what is shown; -1 while it is followed."""
    found = re.search(r"paused, ([\d,]+) lines? below", text)
    return int(found[1].replace(",", "")) if found else -1


def test_a_held_log_stays_under_a_flood_and_goes_on_with_the_newest_lines() -> None:
    with Terminal("--cpu", "1", FAKE, "--flood", "--lines", "0", columns=80, rows=24) as terminal:
        terminal.until("cpu0 log", "following", lambda text: text.count(" of the flood") > 9)
        found = the_session()
        terminal.press("\x1b[5~")
        held = terminal.until(lambda text: _below(text) > 0).splitlines()[-10:-1]
        text = terminal.until(lambda text: _below(text) > 4 * KEPT_LINES)
        assert text.splitlines()[-10:-1] == held
        terminal.press("\x1b[F")
        terminal.until("following", lambda text: text.count(" of the flood") > 9, lambda text: held[-1] not in text)
    stop(found)


def test_keys_that_arrive_in_one_piece_with_the_search_key_belong_to_the_search() -> None:
    """As over a slow line: `x` in a word that is searched for stops no worker."""
    with Terminal("--cpu", "1", FAKE, *STEPS) as terminal:
        terminal.until("cpu0 log", lambda text: shown(text) > 0)
        found = the_session()
        terminal.press("/xtep 1\r")
        terminal.until(" match ")
        assert look(found).workers[0].state == "running"
    stop(found)
