"""The numbers of environments and steps that a script's arguments set."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_NUMBER = r"\d(?:_?\d){0,11}"
_ENVIRONMENTS = re.compile(
    rf"(?:-B|-{{0,2}}(?P<prefix>(?:[\w.+-]*[._+-])?)(?:n|num)[_-]envs?)(?:(?:=|(?<=^-B))(?P<value>{_NUMBER}))?"
)
"""`-B` or `-B64` as in Genesis' examples, `--n_envs`, `--num_envs`, and hydra's `env.num_envs=`."""
_EVALUATION = re.compile(r"(?:^|[._+-])(?:eval|test|val|video)[._+-]")
"""Part of an option for evaluation, whose environments do not count."""
_STEPS = re.compile(
    rf"-{{0,2}}(?:[\w.+-]*[._+-])?(?:total[_-]?(?:time|env[_-]?)?steps|num[_-]timesteps)(?:=(?P<value>{_NUMBER}))?"
)


def from_arguments(args: Sequence[str]) -> int | None:
    """Returns the number of environments that a script's arguments set; None if they set none."""
    values = (
        value
        for match, value in _options(_ENVIRONMENTS, args)
        if not _EVALUATION.search(match["prefix"] or "") and (match["value"] or match[0].startswith("-"))
    )
    return next(map(int, values), None)


def total_steps(args: Sequence[str]) -> float | None:
    """Returns the environment steps set by arguments such as `--total-timesteps 1000000`; None if they set none."""
    return next((float(value) for _, value in _options(_STEPS, args)), None)


def _options(pattern: re.Pattern[str], args: Sequence[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Yields each matching option with its number, which may follow as the next argument."""
    for arg, next_arg in pairwise([*args, ""]):
        match = pattern.fullmatch(arg)
        value = (match["value"] or next_arg) if match is not None else ""
        if match is not None and re.fullmatch(_NUMBER, value):
            yield match, value
