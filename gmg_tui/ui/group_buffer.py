"""The lines of all ranks of a group, interleaved, that are kept for the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from gmg_tui.ui.log_buffer import KEPT_CHARS, KEPT_LINES, LogBuffer, LogRow, progress_gap

_DAY_S: Final = 86_400.0
_time: Final = attrgetter("time")


class GroupBuffer(LogBuffer):
    """The newest lines of several workers, each with its rank in front, in the order of their times.

    A line's time is what it says itself (`clock_s`); one that says none has that of the line before it in what came
    with it, else it is as new as what was last shown. A worker's own lines never change places. What has come is put
    in order when it is drawn. While the buffer is held, nothing changes places: new lines follow those that are there,
    and find their places when it is let go.

    Lines are counted over all ranks.
    """

    def __init__(
        self,
        ranks: Mapping[str, int],
        kept: int = KEPT_LINES,
        kept_chars: int = KEPT_CHARS,
        *,
        shown: Callable[[str], str] = str,
        folds: bool = True,
    ) -> None:
        """Keep lines of `ranks`, which are by slot; the rest is as in `LogBuffer`."""
        super().__init__(kept, kept_chars, shown=shown, folds=folds)
        width = len(str(max(ranks.values(), default=0)))
        self._prefixes = {slot: f"[{rank:>{width}}] " for slot, rank in ranks.items()}
        self._next: dict[str, int] = {}
        """The number of each worker's next line."""
        self._known: dict[str, int] = {}
        self._times = dict.fromkeys(ranks, 0.0)
        """The time of each worker's newest line."""
        self._newest = 0.0
        """The latest time among the lines that are kept in order."""
        self._coming: list[LogRow] = []
        """Lines that have no place yet."""
        self._disordered = False
        """Whether lines were added, while held, behind others that are newer."""

    def _about_to_hold(self, *, held: bool) -> None:
        """Once it is let go, all find their places."""
        if held:
            self.settle()
        elif self._disordered:
            self._order()

    def extend(self, first: int, lines: Sequence[str], *, after_progress: bool = False, slot: str = "") -> bool:
        """As `LogBuffer.extend`, of the worker on `slot`."""
        from gmg_tui.genesis.output import progress  # the first frame needs no expressions
        from gmg_tui.genesis.output.line_clock import clock_s

        self._known[slot] = max(self._known.get(slot, 0), first + len(lines))
        self.known = sum(self._known.values())
        if self._held and self._is_full(2):
            return True
        begun, start = slot in self._next, self._next.get(slot, 0)
        missing = first - start
        if missing < 0:
            lines = lines[-missing:]
        telling, own_s = False, 0.0
        gap = missing if missing > 0 else 0
        for text in lines:
            clock = clock_s(text)
            if clock is not None:
                own_s = self._of_day(clock)
            time = self._times[slot] = max(self._times[slot], own_s or self._newest)
            if gap:
                self._add(slot, _gap(gap, time, begun=begun, after_progress=after_progress))
                gap = 0
            mere = progress.is_mere(text)
            telling |= not mere
            self._add(slot, LogRow(text, progress=mere, time=time))
        self._next[slot] = max(start, first + len(lines) if missing >= 0 else start + len(lines))
        self.next_line = sum(self._next.values())
        if self._is_full(2) or len(self._coming) > self._most:
            self.settle()
        return telling

    def _add(self, slot: str, row: LogRow) -> None:
        self._coming.append(row._replace(prefix=self._prefixes[slot]))

    def _of_day(self, clock: float) -> float:
        """A time of day as seconds that go on after midnight: the one that is nearest to the newest line's."""
        time = self._newest // _DAY_S * _DAY_S + clock
        if self._newest - time > _DAY_S / 2:
            return time + _DAY_S
        return time - _DAY_S if self._newest and time - self._newest > _DAY_S / 2 else time

    def settle(self) -> None:
        """Give all lines that have come their places."""
        if not self._coming:
            return
        coming, self._coming = sorted(self._coming, key=_time), []
        late = bool(self._lines) and coming[0].time < self._newest
        self._newest = max(self._newest, coming[-1].time)
        end = self._lines[-1].end if self._lines else 0
        for row in coming:
            end += row.lines
            self._append(row._replace(end=end))
        self._disordered |= late
        if self._held:
            return
        full = self._is_full(1 + 1 / 8)
        if self._disordered:
            self._order()
        if full:
            self._drop()
        if full or late:
            self._make_rows()

    def _order(self) -> None:
        """Have the lines that are kept in the order of their times, and numbered so."""
        end = self._lines[0].end - self._lines[0].lines if self._lines else 0
        self._lines.sort(key=_time)
        for at, row in enumerate(self._lines):
            end += row.lines
            self._lines[at] = row._replace(end=end)
        self._disordered = False


def _gap(count: int, time: float, *, begun: bool, after_progress: bool) -> LogRow:
    """The marker of a worker's lines that did not come."""
    if after_progress:
        return progress_gap(0, count)._replace(time=time)
    return LogRow(
        f"… {count:,} lines skipped" if begun else f"… {count:,} earlier lines", 0, count, gap=True, time=time
    )
