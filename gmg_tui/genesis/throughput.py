"""Environment steps per second of one attempt, from whichever of its lines says it best."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from gmg_tui.genesis import lines
from gmg_tui.genesis.rate import RateWindow, averages_seconds
from gmg_tui.genesis.uniform import Rates
from gmg_tui.model import Fps


class Source(IntEnum):
    """Who prints the rate; the greater wins, because it is nearer to the simulation or printed more often."""

    RSL = 1
    BENCHMARK = 2
    RAW = 3
    """Genesis's lines through the root logger, the second time (up to 0.4.5)."""
    GENESIS = 4


class Throughput:
    """The printed numbers of one attempt: last, mean, greatest, how many, and the rate behind the average."""

    def __init__(self) -> None:
        self.n_envs: int | None = None
        """Environments, as the lines of Genesis say; None where they name none."""
        self.version: str | None = None
        """The version of Genesis, which decides how its average is undone."""
        self._source: Source | None = None
        self._raw_envs = b""
        self._reset()

    def _reset(self) -> None:
        self._last = self._max = self._sum = 0.0
        self._samples = 0
        self._window: RateWindow | None = None

    def new_scene(self) -> None:
        """Another scene is built: its average begins anew, and the numbers count on."""
        self._window = None

    def take_alike(self, rates: Rates) -> bool:
        """Take progress lines of Genesis that all look the same; returns whether they counted."""
        if not self._admit(Source.RAW if rates.marker else Source.GENESIS):
            return False
        self._environments(rates.environments)
        self._add([float(number.replace(b",", b"")) for number in rates.numbers])
        return True

    def take_lines(self, found: Sequence[tuple[bytes, bytes, bytes]]) -> bool:
        """Take progress lines of Genesis, in order, as `lines.FPS` finds them; returns whether any counted."""
        plain = [each for each in found if not each[0]] if any(each[0] for each in found) else found
        if plain:
            return self._take_same(Source.GENESIS, plain)
        return self._take_same(Source.RAW, found)

    def _take_same(self, source: Source, found: Sequence[tuple[bytes, bytes, bytes]]) -> bool:
        if not self._admit(source):
            return False
        # Runs of lines with one number of environments: nearly always the whole.
        start = 0
        for end in range(1, len(found) + 1):
            if end == len(found) or found[end][2] != found[start][2]:
                self._environments(found[start][2])
                self._add([float(each[1].replace(b",", b"")) for each in found[start:end]])
                start = end
        return True

    def take_number(self, source: Source, value: float) -> bool:
        """Take a number that is no moving average; returns whether it counted."""
        if not self._admit(source):
            return False
        self._add([value])
        return True

    def fps(self) -> Fps | None:
        """All figures; None before the first number."""
        if not self._samples:
            return None
        rate = self._window.rate() if self._window else None
        return Fps(self._last, self._sum / self._samples, self._max, self._samples, rate)

    def _admit(self, source: Source) -> bool:
        """Whether numbers of `source` count; numbers of a lesser one are forgotten then."""
        if self._source is not None and source < self._source:
            return False
        if source is not self._source:
            self._source = source
            self._reset()
        return True

    def _environments(self, raw: bytes) -> None:
        if raw != self._raw_envs or self._window is None:
            self._raw_envs = raw
            self.n_envs = int(lines.number(raw)) if raw else None
            self._window = RateWindow(seconds=averages_seconds(self.version))

    def _add(self, numbers: list[float]) -> None:
        self._samples += len(numbers)
        self._sum += sum(numbers)
        self._max = max(self._max, *numbers) if len(numbers) > 1 else max(self._max, numbers[0])
        self._last = numbers[-1]
        if self._window is not None:
            self._window.add(numbers)
