"""Sequences sent to the terminal for notifications."""

from __future__ import annotations

import pytest

from gmg_tui.model import Occurrence, OccurrenceKind, Snapshot
from gmg_tui.protocol import Welcome
from gmg_tui.ui.connection import sequences
from gmg_tui.ui.view import View
from tests.ui.sessions import session


def _happened(number: int, text: str = "gpu3 has failed: out of memory") -> Occurrence:
    return Occurrence(number, 0.0, OccurrenceKind.FAILED, text, "gpu3")


@pytest.mark.parametrize(
    ("ways", "tmux", "expected"),
    [
        (("bell",), False, "\a"),
        (("osc9",), False, "\x1b]9;gpu3 has failed: out of memory\a"),
        (("osc777",), False, "\x1b]777;notify;gmg-tui;gpu3 has failed: out of memory\a"),
        (("osc9",), True, "\x1bPtmux;\x1b\x1b]9;gpu3 has failed: out of memory\a\x1b\\"),
        (("bell", "osc9", "bell"), True, "\a\x1bPtmux;\x1b\x1b]9;gpu3 has failed: out of memory\a\x1b\\"),
        (("mail -s x me",), False, ""),
        ((), False, ""),
    ],
)
def test_each_notification_method_has_its_sequence(ways: tuple[str, ...], tmux: bool, expected: str) -> None:
    assert sequences(ways, (_happened(1),), tmux=tmux) == expected
    assert sequences(ways, (), tmux=tmux) == ""


def test_simultaneous_events_are_one_notification_with_a_count() -> None:
    several = tuple(_happened(number) for number in range(3))
    assert sequences(("osc9",), several, tmux=False) == "\x1b]9;gpu3 has failed: out of memory (and 2 more)\a"


def test_script_text_cannot_end_the_sequence_and_is_truncated() -> None:
    evil = _happened(1, "x\a\x1b]0;title\x1b\\;; \u202e " + "y" * 1000)
    sequence = sequences(("osc777",), (evil,), tmux=False)
    head, body, end = (
        sequence[: len("\x1b]777;notify;gmg-tui;")],
        sequence[len("\x1b]777;notify;gmg-tui;") : -1],
        sequence[-1],
    )
    assert (head, end) == ("\x1b]777;notify;gmg-tui;", "\a")
    assert len(body) == 200
    assert not set(body) & set("\a\x1b;\u202e\n")


def test_only_events_while_attached_are_notified() -> None:
    before = Snapshot(0.0, 0.0, (), occurred=(_happened(1), _happened(2)))
    state = View(Welcome(1, session(1), before, ()))
    later = Snapshot(0.0, 0.0, (), occurred=(_happened(2), _happened(3)))
    assert [event.number for event in state.occurred_since(later)] == [3]
    state.apply(later)
    assert state.occurred_since(later) == ()
