"""The kinds of failures, and the signs that identify them (`failure_signs.toml`)."""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec


class FailureKind(StrEnum):
    """The kind of a failure; it decides whether a retry can help."""

    CACHE_RACE = "cache race"
    """Two workers wrote the same mesh cache file at the same time."""
    FOLDER_RACE = "folder race"
    """Two workers made or removed the same folder at the same time."""
    MEMORY = "out of memory"
    """The GPU's memory is full."""
    HOST_MEMORY = "out of host memory"
    DEVICE = "device"
    """The wrong GPU, no GPU, or a CUDA error."""
    LOST = "lost GPU"
    """The driver reports the GPU as lost or failed (Xid, ECC), which alone proves broken hardware."""
    DRIVER = "driver"
    """The driver does not answer."""
    NCCL = "NCCL"
    PORT = "port"
    """The port of a group's store is taken."""
    PEER = "peer"
    """Another rank of the group has ended."""
    GROUP = "group"
    """Another rank of the group has failed, and this one was ended."""
    EGL = "EGL"
    SCRIPT = "script"
    """The script fails in this way every time."""
    KILLED = "killed"
    CONFIG = "configuration"
    """Permissions, disk space, or missing software."""
    MACHINE = "machine"
    """The worker could not start for lack of a disk, a file or free resources."""
    UNKNOWN = "unknown"

    @property
    def is_race(self) -> bool:
        """True for a race with another worker."""
        return self in (FailureKind.CACHE_RACE, FailureKind.FOLDER_RACE)

    @property
    def is_transient(self) -> bool:
        """True if a restart alone is likely to help."""
        return self.is_race or self is FailureKind.DRIVER


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `failure_signs.toml`: texts that identify a kind of failure."""

    kind: FailureKind
    patterns: re.Pattern[bytes]
    """All alternatives in one expression."""
    advice: str
    vague: bool = False
    """True if other lines may be more specific."""
    suspect: bool = False
    """See `Failure.suspect`."""


_AMBIGUOUS_KINDS = frozenset({FailureKind.CONFIG, FailureKind.FOLDER_RACE, FailureKind.SCRIPT})
"""Kinds whose signs also occur in harmless lines, and count only in the reason itself."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `failure_signs.toml`."""

    sign: tuple[Sign, ...]
    signals: dict[str, tuple[str, str]]
    """The cause of a signal and the advice, by the signal's name."""
    child_signal: tuple[re.Pattern[bytes], ...]
    """Expressions with a group `signal` (a name, a number, or a shell's text) or `status` (128 plus the number)."""
    noise: re.Pattern[bytes]
    """Expressions for lines that follow a failure without explaining it."""


@cache
def table() -> Table:
    """Returns the contents of `failure_signs.toml`."""

    def compile_any(_: type, patterns: str | list[str]) -> re.Pattern[bytes]:
        return re.compile("|".join([patterns] if isinstance(patterns, str) else patterns).encode())

    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=Table, dec_hook=compile_any)


def sign_of(text: bytes) -> Sign | None:
    """Returns the first sign that matches `text`; None if none does."""
    return next((sign for sign in table().sign if sign.patterns.search(text)), None)


def find_sign(texts: Sequence[bytes]) -> tuple[Sign, bytes] | None:
    """Returns the newest sign in these lines, vague ones last, and its line; ignores `_AMBIGUOUS_KINDS`."""
    pairs = [(sign, text) for text in reversed(texts) if (sign := sign_of(text)) and sign.kind not in _AMBIGUOUS_KINDS]
    return next((pair for pair in pairs if not pair[0].vague), pairs[0] if pairs else None)
