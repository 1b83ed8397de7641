"""The numbers of environments and steps that a script's arguments set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_NAME = r"(?P<prefix>(?:[\w.+-]*[._+-])?)(?:n|num)[_-]envs?"
_NUMBER = r"\d(?:_?\d){0,11}"
_OPTION = re.compile(rf"(?:-B|-{{0,2}}{_NAME})(?:(?:=|(?<=^-B))(?P<value>{_NUMBER}))?")
"""`-B` as in Genesis' examples, also `-B64`, `--n_envs`, `--num_envs`, and hydra's `env.num_envs=`."""
_EVALUATION = re.compile(r"(?:^|[._+-])(?:eval|test|val|video)[._+-]")
"""Marks the environments of an evaluation, which do not count."""

_TOTAL = re.compile(
    rf"-{{0,2}}(?:[\w.+-]*[._+-])?(?:total[_-]?(?:time|env[_-]?)?steps|num[_-]timesteps)(?:=(?P<value>{_NUMBER}))?"
)


def from_arguments(args: Sequence[str]) -> int | None:
    """Returns the number of environments that a script's arguments set; None if they set none."""
    for arg, following in pairwise([*args, ""]):
        match = _OPTION.fullmatch(arg)
        if match is None or _EVALUATION.search(match["prefix"] or ""):
            continue
        if match["value"]:
            return int(match["value"])
        if arg.startswith("-") and "=" not in arg and re.fullmatch(_NUMBER, following):
            return int(following)
    return None


def total_steps(args: Sequence[str]) -> float | None:
    """Returns the environment steps set by arguments such as `--total-timesteps 1000000`; None if they set none."""
    for arg, following in pairwise([*args, ""]):
        match = _TOTAL.fullmatch(arg)
        value = (match["value"] or following) if match is not None else ""
        if re.fullmatch(_NUMBER, value):
            return float(value)
    return None
