"""Notifications of the terminal."""

import pytest

from gmg_tui.model import Occurrence, OccurrenceKind
from gmg_tui.ui.terminal import notification_sequences
from tests.ui import play
from tests.ui.sessions import busy_snapshot
from tests.workers import changed


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
    assert notification_sequences(ways, (_happened(1),), tmux=tmux) == expected
    assert notification_sequences(ways, (), tmux=tmux) == ""


def test_simultaneous_events_are_one_notification_with_a_count() -> None:
    several = tuple(_happened(number) for number in range(3))
    assert (
        notification_sequences(("osc9",), several, tmux=False) == "\x1b]9;gpu3 has failed: out of memory (and 2 more)\a"
    )


def test_script_text_cannot_end_the_sequence_and_is_truncated() -> None:
    evil = _happened(1, "x\a\x1b]0;title\x1b\\;; \u202e " + "y" * 1000)
    sequence = notification_sequences(("osc777",), (evil,), tmux=False)
    head, body, end = (
        sequence[: len("\x1b]777;notify;gmg-tui;")],
        sequence[len("\x1b]777;notify;gmg-tui;") : -1],
        sequence[-1],
    )
    assert (head, end) == ("\x1b]777;notify;gmg-tui;", "\a")
    assert len(body) == 200
    assert not set(body) & set("\a\x1b;\u202e\n")


async def test_only_events_while_attached_are_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = changed(busy_snapshot(1), occurred=(_happened(1), _happened(2)))
    engine = play.engine_of(snapshot)
    session = engine.welcome.session
    engine.welcome = changed(engine.welcome, session=changed(session, spec=changed(session.spec, notify=("osc9",))))
    app, sent = play.app_of(engine), list[str]()
    monkeypatch.setattr(app, "write_to_terminal", sent.append)
    monkeypatch.delenv("TMUX", raising=False)
    async with app.run_test() as pilot:
        for _ in range(2):
            engine.push(changed(snapshot, occurred=(_happened(2), _happened(3))))
            await pilot.pause()
    assert [text for text in sent if text] == [notification_sequences(("osc9",), (_happened(3),), tmux=False)]
