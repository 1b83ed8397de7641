"""Reads the lines of Genesis: phases, rates, environments, device, version, and signs of trouble."""

import itertools
import operator
import re
from collections.abc import Iterator

from gmg_tui.model import Severity, Sign
from gmg_tui.model.text import MAX_LINE_BYTES, clean
from gmg_tui.scripts.genesis.output import line_patterns
from gmg_tui.scripts.genesis.output.printed_rate import is_smoothed
from gmg_tui.scripts.readers.interface import Figures, LineReader

_MAX_TEXT_CHARS = 200
"""Characters of a name or sign to keep."""
_MAX_SPANS = 500
_EVICTION = b"offline_cache.h:run"
"""The source of a message from Quadrants' eviction at exit: a lock that fails there loses no kernels."""


class GenesisLines(LineReader):
    """Reads Genesis' lines: one by one (the spans of `ordered_spans`), and the blocks between them.

    Ignores a locked kernel cache in ranks of a group, which compile and save the same kernels.

    Attributes:
        device: The name of the device that Genesis runs on.
        backend: `cuda`, `cpu` …
        version: The version of Genesis.
        smoothed: True if this version prints moving averages.
        mode: The options of `gs.init` that Genesis prints, by name.
        rest: The last block without its progress lines, for the next readers; empty if it had no other lines.
    """

    def __init__(self, gpu_slot: bool, *, rank: bool = False) -> None:
        self.device: str | None = None
        self.backend: str | None = None
        self.version: str | None = None
        self.smoothed = is_smoothed(None)
        self.mode: dict[str, str] = {}
        self.rest = b""
        self._gpu_slot, self._rank = gpu_slot, rank
        self._on_cpu = self._rendering = ""
        self._cache: Sign | None = None
        self._fell_back = False

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The signs of trouble in the lines so far, at most one per kind."""
        cpu = "; ".join(filter(None, (self._on_cpu, self._rendering)))
        on_cpu = Sign("cpu", cpu[:_MAX_TEXT_CHARS], "`gmg-tui doctor` shows what is missing") if cpu else None
        return tuple(sign for sign in (on_cpu, self._cache) if sign is not None)

    def read(self, block: bytes) -> Iterator[Figures]:
        """Yields the figures of a block."""
        pieces = line_patterns.FPS.split(block)
        if len(pieces) > 1:
            between = pieces[::4]
            heads = set(filter(line_patterns.AROUND_FPS.fullmatch, set(between)))  # mostly repetitions
            self.rest = b"".join(text for text in between if text not in heads)
            yield from _rates(list(zip(pieces[1::4], pieces[2::4], pieces[3::4], strict=True)))
        else:
            self.rest = block
            if block.find(b"\n", 0, -1) < 0:
                yield from self._read_line(block)

    @staticmethod
    def ordered_spans(block: bytes) -> Iterator[tuple[int, int]]:
        """Yields the spans of lines to read one by one, in order, as they may report more than rates.

        Yields only those around the newest `_MAX_SPANS` matches.
        """
        starts, end = [match.start() for match in line_patterns.OTHER.finditer(block)], 0
        for word in line_patterns.TRIGGERS:
            starts += [match.start() for match in re.finditer(word, block)]
        for at in sorted(starts)[-_MAX_SPANS:]:
            if at >= end:
                before = (block.rfind(sign, end, at) + 1 for sign in (b"\n", b"\r"))
                after = (block.find(sign, at) + 1 for sign in (b"\n", b"\r"))
                start, end = max(end, *before), min(filter(None, after), default=len(block))
                yield start, end

    def _read_line(self, raw: bytes) -> Iterator[Figures]:
        line = line_patterns.plain(raw[:MAX_LINE_BYTES])
        logged = line_patterns.message(line)
        if logged is None:
            self._read_text(line, logged=False)
            return
        _, text = logged
        self._read_text(text, logged=True)
        device = line_patterns.DEVICE.match(text)
        if device is not None:
            self.device, self.backend = clean(device["name"])[:_MAX_TEXT_CHARS], clean(device["backend"])
            self._on_cpu = ""
            if self._gpu_slot and self.backend == "cpu":
                fell_back = f"fell back to the CPU ({self.device}): Genesis found no usable GPU"
                chosen = f"is running on the CPU ({self.device}), not on the GPU of its slot"
                self._on_cpu = fell_back if self._fell_back else chosen
        version = line_patterns.VERSION.search(text)
        if version is not None:
            self.version = clean(version["version"].rstrip(b".,"))
            self.smoothed = is_smoothed(self.version)
            mode = {clean(name): clean(value) for name, value in line_patterns.MODE.findall(text)}
            self.mode = {"performance_mode" if name == "performance" else name: value for name, value in mode.items()}
        phase = next((phase for start, phase in line_patterns.PHASES if text.startswith(start)), None)
        if phase is not None:
            yield Figures(phase=phase)

    def _read_text(self, text: bytes, *, logged: bool) -> None:
        """Reads a line's text, `logged` if it is from Genesis' logger."""
        if logged and text.startswith(line_patterns.CORRUPTED_CACHE):
            self._cache = self._cache or Sign("cache", "recovered from a cache race: a half-written file was rebuilt")
        elif self._gpu_slot and logged and text.startswith(line_patterns.SOFTWARE_RENDERING):
            self._rendering = "renders in software, slowly: EGL does not use the GPU"
        elif line_patterns.NO_BACKEND.search(text) is not None:
            self._fell_back = True
            if self._gpu_slot:
                self._on_cpu = "fell back to the CPU: Genesis found no usable GPU"
        elif (
            not logged
            and not self._rank
            and _EVICTION not in text
            and (lock := line_patterns.LOCK.search(text)) is not None
        ):
            locked = f"kernel cache locked, kernels may need recompiling: {clean(lock['path'])}"
            self._cache = Sign("cache", locked[:_MAX_TEXT_CHARS], severity=Severity.WARNING)


def _rates(matches: list[tuple[bytes | None, ...]]) -> Iterator[Figures]:
    """Yields the figures of matches of `line_patterns.FPS`, without the repetitions of the root logger."""
    plain = [match for match in matches if not match[0]]
    for n_envs, group in itertools.groupby(plain, operator.itemgetter(2)):
        digits = b" ".join([rate or b"" for _, rate, _ in group]).replace(b",", b"")
        yield Figures(rates=[*map(float, digits.split())], n_envs=int(line_patterns.number(n_envs)) if n_envs else None)
