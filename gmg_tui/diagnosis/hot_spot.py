"""Finds the function that takes most of a script's time by sampling its Python stacks."""

import re
from collections import Counter

from gmg_tui.model import HotSpot

_STACK = re.compile(r"^Current thread .*\n((?:  .*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line (\d{1,9}) in (.+)', re.MULTILINE)
_LIBRARY = re.compile(r"^<|/(?:site|dist)-packages/|/lib/python3|/gmg_(?:probe|reports)\.py$")
_STEP = re.compile(r"/gmg_probe\.py$")
"""The probe's file, whose `step` calls a simulator's."""


def hot_spot(text: str) -> HotSpot | None:
    """Returns the script's own function that is innermost in most stacks, given as `faulthandler` writes them.

    Stacks inside a simulator step do not count. None if there are no others.
    """
    stacks = [_FRAME.findall(stack) for stack in _STACK.findall(text)]
    outside = [stack for stack in stacks if not any(name == "step" and _STEP.search(file) for file, _, name in stack)]
    own = [next((frame for frame in stack if _LIBRARY.search(frame[0]) is None), None) for stack in outside]
    counted = Counter((frame[0], frame[2]) for frame in own if frame is not None)
    if not counted:
        return None
    ((file, function), count), *_ = counted.most_common(1)
    lines = Counter(int(frame[1]) for frame in own if frame is not None and (frame[0], frame[2]) == (file, function))
    name = "the script itself" if function == "<module>" else function
    stepping_pct = 100 * (1 - len(outside) / len(stacks))
    return HotSpot(name, file, lines.most_common(1)[0][0], 100 * count / len(outside), len(outside), stepping_pct)
