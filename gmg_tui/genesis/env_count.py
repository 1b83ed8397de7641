"""How many environments a run has, where Genesis' own lines do not say: from its arguments, or from what it prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_NAME = r"(?:[\w.+-]*[._+-])?(?:n|num)[_-]envs?"
_NUMBER = r"\d(?:_?\d){0,11}"
_OPTION = re.compile(rf"(?:-B|-{{0,2}}{_NAME})(?:(?:=|(?<=^-B))(?P<value>{_NUMBER}))?")
"""`-B` as in Genesis' examples, also `-B64`, `--n_envs`, `--num_envs`, and hydra's `env.num_envs=`."""

PRINTED: Final = re.compile(rb"\b(?:n|num)_envs['\"]?\s{0,8}[:=]\s{0,8}(?P<count>\d{1,9})\b")
"""A configuration that a script prints: `num_envs: 4096`, `'num_envs': 4096`."""


def from_arguments(args: Sequence[str]) -> int | None:
    """The number of environments that a script's arguments name; None if they do not."""
    found = place(args)
    return None if found is None else int(args[found[0]][found[1] :])


def place(args: Sequence[str]) -> tuple[int, int] | None:
    """Where the arguments name the number of environments: which argument ends with it, and from which character on."""
    for index, (arg, following) in enumerate(pairwise([*args, ""])):
        match = _OPTION.fullmatch(arg)
        if match is None:
            continue
        if match["value"]:
            return index, match.start("value")
        if arg.startswith("-") and "=" not in arg and re.fullmatch(_NUMBER, following):
            return index + 1, 0
    return None
