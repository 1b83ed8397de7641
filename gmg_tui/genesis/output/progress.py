"""How far a run is, if the script reports it: rsl_rl's iterations and tqdm's bars; and which lines say no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gmg_tui.genesis.output import lines
from gmg_tui.model import Progress

_ITERATIONS = 20
"""The pace is averaged over so many of the last iterations."""
REPORTED = "gmg:fps "
"""How a line of `gmg_tui.report_fps` begins."""
_SCALES = {b"k": 1e3, b"M": 1e6, b"G": 1e9, b"T": 1e12, b"P": 1e15, b"E": 1e18, b"Z": 1e21, b"Y": 1e24}


class Iterations:
    """rsl_rl's `Learning iteration i/n`, with the time left from the pace of the last ones."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_ITERATIONS + 1)

    @property
    def any(self) -> bool:
        """Whether an iteration has been seen; it takes precedence over a bar."""
        return bool(self._seen)

    def take(self, line: bytes, now: float) -> Progress | None:
        """The progress after a plain line read at `now` (monotonic seconds); None if it names no iteration."""
        match = lines.RSL_ITERATION.search(line)
        if match is None:
            return None
        done, total = int(match["done"]), int(match["total"])
        if self._seen and done <= self._seen[-1][0]:
            self._seen.clear()  # another training run began in the same process
        self._seen.append((done, now))
        first, since = self._seen[0]
        # rsl_rl prints the line when iteration i, counted from 0, is done: i + 1 are.
        left = max(0, total - 1 - done)
        eta_s = (now - since) / (done - first) * left if done > first else None
        return Progress(min(done + 1.0, float(total)), float(total), "iteration", eta_s)


class IterationSteps:
    """How many environment steps each iteration of rsl_rl has, from the totals that it prints."""

    def __init__(self) -> None:
        self._total: int | None = None
        self.each = 0
        """0 before it is known."""

    def take(self, line: bytes) -> None:
        """Read a plain line."""
        match = lines.RSL_TOTAL.search(line)
        if match is not None:
            total = int(match["steps"])
            self.each = max(0, total - self._total) if self._total is not None else 0
            self._total = total


def bar(line: bytes) -> Progress | None:
    """The progress of a bar drawn by tqdm; None if the line has none with a known total.

    Its unit is the script's (`tqdm(unit=…)`), else `it`; the time left is what tqdm says.
    """
    match = lines.TQDM.search(line)
    if match is None:
        return None
    done, total = _scaled(match["done"]), _scaled(match["total"])
    if done is None or total is None or total <= 0:
        return None
    scaled, pace = match["total"][-1:] in _SCALES, match["pace"] or b""
    unit, per_s = _unit_and_pace(pace, scaled=scaled)
    return Progress(done, total, unit, _clock_s(match["left"]), per_s)


def is_mere(text: str) -> bool:
    """Whether a line of output, cleaned, says nothing but a rate, or is a bar of tqdm that is not yet full.

    rsl_rl's iterations are no such lines: they are the heads of its tables.
    """
    if text.startswith(REPORTED):
        return True
    if "Running at " in text:
        return lines.FPS_ALONE.fullmatch(text.encode(errors="replace")) is not None
    drawn = bar(text.encode(errors="replace")) if "%|" in text else None
    return drawn is not None and drawn.done < drawn.total


def telling_places(block: bytes, lines: Sequence[bytes]) -> Sequence[int]:
    """The indices of those lines of a block, as they were written, that say more than `is_mere` means.

    At a cheap look, for a flood: a few that say more may be missing.
    """
    rates = block.count(b"Running at ")
    if rates in (0, len(lines)) and b"%|" not in block:
        return range(len(lines)) if not rates else ()
    return [
        place
        for place, line in enumerate(lines)
        if b"Running at " not in line and (b"%|" not in line or b"100%|" in line)
    ]


def _unit_and_pace(pace: bytes, *, scaled: bool) -> tuple[str, float | None]:
    """Unit and units a second of `10.20it/s`, `3.40s/it`, `?it/s` or, with tqdm's SI letter, `1.20kit/s`."""
    match = lines.TQDM_PACE.match(pace)
    if match is None:
        return "it", None
    number = _scaled(match["number"])
    if match["slow"]:
        return match["slow"].decode(), 1 / number if number else None
    unit, scale = match["fast"], 1.0
    if unit[:1] in _SCALES and (scaled or unit[1:] == b"it"):
        unit, scale = unit[1:], _SCALES[unit[:1]]
    return unit.decode() or "it", number * scale if number else None


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
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))
