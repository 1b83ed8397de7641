"""The headline over everything."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gmg_tui.model import Phase, Snapshot, WorkerState
from gmg_tui.protocol import Welcome
from gmg_tui.ui.header import headline
from gmg_tui.ui.view import View
from tests.ui import sessions
from tests.workers import changed


def _headline(snapshot: Snapshot, width: int) -> str:
    state = View(Welcome(sessions.session(len(snapshot.workers)), snapshot, ()))
    text = str(headline(state, width))
    assert cell_len(text) == width
    return text


def test_the_headline_sums_running_workers_and_counts_each_once() -> None:
    text = _headline(sessions.varied_snapshot(), 160)
    running = [w for w in sessions.varied_snapshot().workers if w.state is WorkerState.RUNNING]
    total = sum(w.rate or 0.0 for w in running)
    assert f"Σ {total:,.0f} FPS" in text
    assert "1 compiling  3 running  1 stopping  1 restarting  1 failed  1 stuck" in text
    assert "00:41:07" in text


def test_the_headline_does_not_count_a_worker_as_compiling_that_saves_its_kernels_at_the_end() -> None:
    saving = changed(sessions.running(0), fps=None, state=WorkerState.COMPILING, phase=Phase.SAVING)
    text = _headline(changed(sessions.busy_snapshot(1), workers=(saving,)), 120)
    assert "1 saving" in text
    assert "compiling" not in text


@pytest.mark.parametrize("width", range(60, 160, 7))
@pytest.mark.parametrize("snapshot", [sessions.varied_snapshot(), sessions.ended_snapshot()])
def test_the_headline_never_cuts_the_total_nor_the_clock(snapshot: Snapshot, width: int) -> None:
    text = _headline(snapshot, width)
    assert " FPS " in text
    assert "Σ " in text
    assert text.rstrip().endswith("00:41:07")
    assert "fr" in text


@pytest.mark.parametrize(
    ("written", "running", "shown"),
    [
        (("-B", "4096"), [("-B", "8192")] * 2, "franka.py -B 8192"),
        (("-e", "run-{i}"), [("-e", "run-0"), ("-e", "run-1")], "franka.py -e run-{i}"),
    ],
)
def test_the_headline_shows_the_running_arguments(
    written: tuple[str, ...], running: list[tuple[str, ...]], shown: str
) -> None:
    session = sessions.session(2)
    session = changed(session, spec=changed(session.spec, args=written))
    workers = tuple(changed(sessions.running(i), args=args) for i, args in enumerate(running))
    state = View(Welcome(session, changed(sessions.busy_snapshot(2), workers=workers), ()))
    assert f"{shown}  " in str(headline(state, 140))


def test_the_headline_has_the_whole_name_and_the_name_of_the_script_without_its_folder() -> None:
    session = sessions.session(2)
    spec = changed(session.spec, name="franka-day-1", script="/home/ada/sim/franka.py", simulate=2)
    state = View(Welcome(changed(session, spec=spec), sessions.busy_snapshot(2), ()))
    for width in (80, 160):
        text = str(headline(state, width))
        assert " simulated franka-day-1  " in text
        assert "2 running" in text
        assert "/home" not in text
        assert ("  franka.py" in text) == (width == 160)  # whole or not at all
    assert "  franka.py -B" in text
