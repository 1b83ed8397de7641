"""Windows whose size changes again and again, with keys in between, on every screen: the interface shows what it should."""

import random
import sys
import time
from functools import partial
from typing import NamedTuple

import pytest

from tests.patience import LONG_S
from tests.terminal.screen import DOWN, ENTER, ESCAPE, LEFT, RIGHT, UP, Terminal

from .storm_program import MOMENTS

pytestmark = [pytest.mark.terminal, pytest.mark.slow]

RESIZES = 4
"""On each screen of a storm."""
SIZES = ((60, 12), (80, 24), (120, 36), (160, 48))
"""Those that a storm ends with."""
PAGE_UP, PAGE_DOWN, HOME, END = "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F"
TAB, BACKTAB, REDRAW = "\t", "\x1b[Z", "\x0c"
SHIFT_LEFT, SHIFT_RIGHT, CTRL_UP, CTRL_DOWN = "\x1b[1;2D", "\x1b[1;2C", "\x1b[1;5A", "\x1b[1;5B"
ARROWS = (UP, DOWN, LEFT, RIGHT)
PAGES = (PAGE_UP, PAGE_DOWN, HOME, END)
HOME_S = 5.0
_MOST_ROWS = 6


class Under(NamedTuple):
    """A screen to be stormed."""

    open: str
    """The keys that open it from the main screen; empty for the main screen."""
    marks: tuple[str, ...]
    """What they bring onto the screen; the main screen does not show the first."""
    keys: tuple[str, ...]
    """Pressed during the storm; none leaves the screen."""
    home: tuple[str, ...] = ()
    """Pressed after it, and in the fresh one, so that both are as the other is."""
    typed: bool = False
    """Whether the keys of the storm leave it unlike a fresh one."""
    close: tuple[str, ...] = (ESCAPE,)
    """The keys that lead back to the main screen as it was."""


PAGE = "esc Back"
"""In the footer of every page and below an enlarged pane, and nowhere else."""
MAIN = " Charts "
"""A tab of the main screen, at every size of `SIZES`."""
TO_GPU0 = (*"kkkkkkkkhhhhhhhh", *[SHIFT_LEFT] * 20, END)
LIVE = {
    "main": Under(
        "", (f"moment {MOMENTS}",), (*ARROWS, *"hjklfnN! ", *PAGES, SHIFT_LEFT, SHIFT_RIGHT), (*TO_GPU0, ESCAPE)
    ),
    "details": Under(
        f"{BACKTAB}{BACKTAB}{BACKTAB}{ENTER}",
        (PAGE, "gmg-tui logs"),
        (UP, DOWN, *"hljk", *PAGES),
        (*"hhhhhhhh", HOME),
        close=(TAB, TAB, TAB, ESCAPE),
    ),
    "processes": Under(
        "p", ("owner",), (*ARROWS, *"hjkl", *PAGES, REDRAW), (*TO_GPU0, HOME), close=(BACKTAB, BACKTAB, BACKTAB)
    ),
    "tried": Under("a", (PAGE,), (UP, DOWN, "j", "k", *PAGES), (HOME,)),
    "search": Under("/", ("search the log",), (LEFT, RIGHT, *"gpu0 \x7f", HOME, END), (END, *["\x7f"] * 300)),
}
"""Screens that follow the session."""
TUNE = {"tune": Under("Q", (PAGE,), (UP, DOWN, *PAGES), (END,), typed=True)}  # columns stay as wide as they were
QUEUE = {"queue": Under("Q", (PAGE,), (UP, DOWN, "j", "k", *PAGES, "f"), (END, HOME))}
DIALOGS = {
    "edit": Under("e", ("Edit gpu0",), (*ARROWS, TAB, BACKTAB, *"w {\x7f", HOME, END, CTRL_UP, CTRL_DOWN), typed=True),
    "help": Under("?", ("─ Help ",), (UP, DOWN, " ", *PAGES), (HOME,)),
    "palette": Under("\x10", ("Search for commands",), (UP, DOWN, *"the\x7f", PAGE_UP, PAGE_DOWN), typed=True),
    "quit": Under("q", ("─ Quit ",), (*ARROWS, TAB, BACKTAB, "j", "k"), typed=True),
}
"""Screens that stand over one that rests meanwhile."""


def _program(kind: str, pace_s: float, size: tuple[int, int]) -> Terminal:
    command = (sys.executable, "-m", "tests.harm.storm_program", kind, str(pace_s))
    return Terminal(columns=size[0], rows=size[1], command=command)


def _same(stormed: Terminal, fresh: Terminal, home: tuple[str, ...], where: str) -> None:
    """Wait until both show the same, in the same colours, once `home` has been pressed.

    It is pressed again now and then: keys that come before the last size of the window are not obeyed.
    """
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        stormed.press(*home)
        again = time.monotonic() + HOME_S
        while time.monotonic() < again:
            if stormed.cells() == fresh.cells():
                return
            assert stormed.alive, f"{where}: it died\n{stormed.raw[-4000:].decode(errors='replace')}"
            time.sleep(0.02)
    texts = zip(stormed.text().splitlines(), fresh.text().splitlines(), strict=True)
    pairs = zip(stormed.cells(), fresh.cells(), texts, strict=True)
    rows = []
    for y, (cells, right, (text, whole)) in enumerate(pairs):
        if cells != right:
            x, pair = next((x, pair) for x, pair in enumerate(zip(cells, right, strict=True)) if pair[0] != pair[1])
            rows.append(f"{y:3} {text}\n    {whole}\n    column {x}: {pair[0]}, {pair[1]}")
    raise AssertionError("\n".join([f"{where}: {len(rows)} rows are not as in a fresh one", *rows[:_MOST_ROWS]]))


def _lacks(word: str, text: str) -> bool:
    return word not in text


def _blow(terminal: Terminal, under: Under, chance: random.Random, number: int) -> None:
    """Resize it `number` times, now in a burst, now slowly, with keys among it."""
    for _ in range(number):
        terminal.resize(chance.randint(1, 200), chance.randint(1, 60))
        terminal.press(*chance.choices(under.keys, k=chance.randint(0, 3)))
        time.sleep(chance.choice((0.0, 0.0, 0.005, 0.03, 0.1)))
        assert terminal.alive, terminal.raw[-4000:].decode(errors="replace")


@pytest.mark.parametrize(
    ("seed", "kind", "live", "dialogs"), [(0, "plain", LIVE, DIALOGS), (1, "sweep", QUEUE, {}), (2, "tune", TUNE, {})]
)
@pytest.mark.timeout(600)
def test_after_a_storm_of_resizes_and_keys_every_screen_equals_a_fresh_one(
    seed: int, kind: str, live: dict[str, Under], dialogs: dict[str, Under]
) -> None:
    chance = random.Random(seed)
    screens = live | dialogs
    size = chance.choice(SIZES)
    names = [*chance.sample(list(live), len(live)), *chance.sample(list(dialogs), len(dialogs))]
    with _program(kind, 0.05, size) as stormed, _program(kind, 0.0, size) as fresh:
        for terminal in (stormed, fresh):
            if kind == "tune":
                terminal.until(*TUNE["tune"].marks)
                terminal.press(ESCAPE)
            terminal.until(f"moment {MOMENTS}" if terminal is fresh else MAIN)
        for name in names:
            under = screens[name]
            if under.open:
                stormed.resize(160, 48)
                for terminal in (stormed, fresh):
                    terminal.press(under.open)
                    terminal.until(*under.marks)
            fresh.press(*under.home)
            _blow(stormed, under, chance, RESIZES)
            stormed.resize(*size)
            if under.typed:
                stormed.settle(REDRAW, f"{name}, storm {seed}")
            else:
                _same(stormed, fresh, under.home, f"{name}, storm {seed}")
            if under.open:
                for terminal in (stormed, fresh):
                    terminal.press(*under.close)
                    terminal.until(partial(_lacks, under.marks[0]))
            _same(stormed, fresh, TO_GPU0, f"the main screen after {name}, storm {seed}")
        stormed.press("d")
        assert stormed.until_ended() == 0
