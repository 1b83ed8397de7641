"""How far a run is, where the script says so: rsl_rl's iterations and tqdm's bars."""

from __future__ import annotations

from collections import deque

from gmg_tui.genesis import lines
from gmg_tui.model import Progress

_ITERATIONS = 20
"""The pace is taken over this many of the last iterations."""
_SCALES = {b"k": 1e3, b"M": 1e6, b"G": 1e9, b"T": 1e12, b"P": 1e15, b"E": 1e18, b"Z": 1e21, b"Y": 1e24}


class Iterations:
    """rsl_rl's `Learning iteration i/n`, with the time left from the pace of the last ones."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_ITERATIONS + 1)

    @property
    def any(self) -> bool:
        """Whether an iteration has been seen; it says more of the run than a bar does."""
        return bool(self._seen)

    def take(self, line: bytes, now: float) -> Progress | None:
        """The progress after a plain line seen at `now` (monotonic seconds); None where it names no iteration."""
        match = lines.RSL_ITERATION.search(line)
        if match is None:
            return None
        done, total = int(match["done"]), int(match["total"])
        if self._seen and done <= self._seen[-1][0]:
            self._seen.clear()  # another training run began in the same process
        self._seen.append((done, now))
        first, since = self._seen[0]
        # rsl_rl prints the line when iteration i, counted from 0, is done.
        left = max(0, total - 1 - done)
        eta_s = (now - since) / (done - first) * left if done > first else None
        return Progress(float(done), float(total), "iteration", eta_s)


def bar(line: bytes) -> Progress | None:
    """The progress of a bar that tqdm drew; None where the line has none with a known total.

    Its unit is the script's (`tqdm(unit=…)`), else `it`; the time left is what tqdm says.
    """
    match = lines.TQDM.search(line)
    if match is None:
        return None
    done, total = _scaled(match["done"]), _scaled(match["total"])
    if done is None or total is None or total <= 0:
        return None
    scaled = match["total"][-1:] in _SCALES
    return Progress(done, total, _unit(match["pace"] or b"", scaled=scaled), _clock_s(match["left"]))


def _unit(pace: bytes, *, scaled: bool) -> str:
    """The unit in `10.20it/s`, `3.40s/it` or, with tqdm's SI letter, `1.20kit/s`."""
    match = lines.TQDM_PACE.match(pace)
    if match is None:
        return "it"
    unit: bytes = match["slow"] or match["fast"]
    if match["fast"] and unit[:1] in _SCALES and (scaled or unit[1:] == b"it"):
        unit = unit[1:]
    return unit.decode() or "it"


def _scaled(raw: bytes) -> float | None:
    """A number with tqdm's SI letter (`unit_scale=True`): `1.20k`."""
    scale = _SCALES.get(raw[-1:])
    try:
        return float(raw[:-1]) * scale if scale else float(raw)
    except ValueError:
        return None


def _clock_s(raw: bytes) -> float | None:
    """Seconds of `01:05` or `2:01:05`; None for `?`."""
    parts = raw.strip().split(b":")
    if len(parts) > 3 or not all(part.isdigit() for part in parts):
        return None
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return float(seconds)
