"""Progress and metrics as most scripts print them: `epoch 12/60 loss 0.31`, `iter 5 of 100: reward=12.3, mean length: 40`.

Reads only lines that name their progress, so as not to mistake prose for metrics. Progress without a total must be at the
beginning of the line, and one of the line's numbers must have a fraction.
"""

import re
from collections.abc import Iterator

from gmg_tui.model.curves import rank
from gmg_tui.model.text import visible
from gmg_tui.scripts.readers.interface import Figures, LineReader, number

_MAX_LINES = 100
"""Last lines of a block to read: metrics are recorded once a second."""
_MAX_CHARS = 1000
_MAX_NAMES = 64
_UNITS = "epoch|iteration|iter|step|episode|update|batch|round|generation"
_PROGRESS = re.compile(
    rf"(?<![\w./-])(?P<unit>{_UNITS})(?P<plural>s)?['\"]?\s{{0,3}}[:=#]?\s{{0,3}}[\[(]?\s{{0,6}}(?P<done>\d{{1,12}})"
    r"(?:\s{0,3}(?:/|\bof\b)\s{0,3}(?P<total>\d{1,12})|(?P<fraction>\.\d{1,9}))?\b(?![.:]\d)",
    re.IGNORECASE,
)
_COUNT = re.compile(r"^\s{0,9}[\[(]\s{0,6}(?P<done>\d{1,12})/(?P<total>\d{1,12})\s{0,3}[\])]")
_BAR = re.compile(r"\d{1,12}/\d{1,12} \[[^\]\r\n]{1,600}\]")
_UNIT_WORDS = tuple(unit.encode() for unit in _UNITS.split("|"))
_FRACTION = re.compile(rb"\d/\d")
_PREFIX = re.compile(
    r"(?:[\[(<][^\])>]{0,60}[\])>]|[\d:.,T/|{'\"\s-]|\b(?:INFO|DEBUG|root|absl|train|training|test|eval)\b){0,60}",
    re.IGNORECASE,
)
"""Logger, time and level before a line's text."""
_NUMBER = r"[-+]?(?:(?:\d[\d,_]{0,30}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?|nan|inf)"
_END = r"(?:\s?%)?(?=[\s,;|)\]}]|$)"
_WORD = r"[A-Za-z_][\w./@-]{0,60}"
_PAIR = re.compile(
    rf"(?<![\w./@-])(?P<name>{_WORD}(?: {_WORD}){{0,2}})['\"]?\s{{0,8}}[:=]\s{{0,8}}(?P<value>{_NUMBER}){_END}",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"[\s,;|:\])-]{{0,9}}(?:(?P<name>{_WORD}(?: {_WORD})?)\s{{1,4}})?(?P<value>{_NUMBER})"
    r"(?P<unit>\s?(?:ms|s|sec|min|h|[kMG]i?B|[\w]{1,8}/s)\b)?"
    rf"{_END}",
    re.IGNORECASE,
)
_PROSE = re.compile(r" {1,4}[A-Za-z]{2,}(?!\S{0,60}\s{0,8}[:=])")
"""A word after an integer, as in `error: 3 files`."""
_STOP_WORD = re.compile(
    r"(?:a|after|and|at|by|current|for|from|has|in|is|it|of|on|or|the|to|took|until|was|with)", re.IGNORECASE
)
"""Words that no metric's name contains; a name begins after the last one."""
_NOT_METRICS = frozenset(f"{_UNITS}|eta|seed|pid|port|version|line|rank|gpu|cuda|device|part|worker".split("|"))


class PairLines(LineReader):
    """Reads pairs of names and values on lines with progress."""

    vague = True

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.is_off = False
        """True once the reader of a known trainer has matched a line."""

    def read(self, block: bytes) -> Iterator[Figures]:
        """Yields the figures of each line with progress."""
        if not self.is_off and _may_have_progress(block):
            for raw in block.splitlines()[-_MAX_LINES:]:
                if _may_have_progress(raw) and b"gmg:" not in raw and b"[Genesis]" not in raw:
                    yield from self._read(visible(raw[: 8 * _MAX_CHARS]).decode("utf-8", "replace")[:_MAX_CHARS])

    def _read(self, line: str) -> Iterator[Figures]:
        progress = _PROGRESS.search(line)
        has_total = progress is not None and progress["total"] is not None
        if progress is None or not (has_total or _names_progress(line, progress)):
            progress = _COUNT.search(line)
            if progress is None and _BAR.search(line) is None:
                return
        pairs = [
            (match["name"], match["value"])
            for match in _PAIR.finditer(line)
            if not match["value"].isdigit() or _PROSE.match(line, match.end()) is None
        ]
        has_fraction = any(not value.lstrip("+-").replace(",", "").isdigit() for _, value in pairs)
        if progress is not None and not pairs:
            pairs = list(_bare_pairs(line[progress.end() :]))
        elif not has_fraction and not (has_total and pairs):
            pairs = []
        metrics = {}
        for text, digits in pairs:
            name, value = _metric_name(text), number(digits.rstrip(","))
            if name and value is not None and (name in self._names or len(self._names) < _MAX_NAMES):
                self._names.add(name)
                metrics[name] = value
        if progress is None:
            yield from [Figures(metrics=metrics)] if metrics else []
        elif metrics or has_total:
            groups = progress.groupdict()
            done, total = float(progress["done"]), float(groups["total"] or 0)
            step, unit = None if groups.get("fraction") else int(done), groups.get("unit", "step").lower()
            yield Figures(done=done if total else None, total=total or None, unit=unit, metrics=metrics, step=step)


def _may_have_progress(text: bytes) -> bool:
    """True if the text has a unit or a fraction; five times as fast as one expression."""
    lower = text.lower()
    return any(word in lower for word in _UNIT_WORDS) or (b"/" in text and _FRACTION.search(text) is not None)


def _names_progress(line: str, progress: re.Match[str]) -> bool:
    """True if a line reports this progress without a total, not an option such as `epochs: 10` or `batch=64`."""
    if (
        progress["plural"]
        or progress["unit"].lower() == "batch"
        or (progress["fraction"] and progress["unit"].lower() != "epoch")
    ):
        return False
    is_dict = line.lstrip().startswith("{") and line.rstrip().endswith("}") and rank(line) < rank("")
    return is_dict or _PREFIX.fullmatch(line[: progress.start()]) is not None


def _bare_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yields pairs separated by spaces only, if the text consists of such pairs and at least one value has a fraction.

    Amounts with a unit, such as `12.3 ms`, may stand between them.
    """
    end, pairs = 0, list[tuple[str, str]]()
    while (match := _BARE.match(text, end)) is not None:
        end = match.end()
        if not match["unit"]:
            if not match["name"] or any(map(_STOP_WORD.fullmatch, match["name"].split())):
                return
            pairs.append((match["name"], match["value"]))
    if any(not value.lstrip("+-").isdigit() for _, value in pairs) and not text[end:].strip(" \t,;|)]}."):
        yield from pairs


def _metric_name(text: str) -> str:
    """Returns a metric's name of up to three words; empty if the text is not a name."""
    words = text.split()
    last = max((index for index, word in enumerate(words) if _STOP_WORD.fullmatch(word)), default=-1)
    words = words[last + 1 :]
    return "" if not words or words[-1].lower().rstrip("s") in _NOT_METRICS else "_".join(words)
