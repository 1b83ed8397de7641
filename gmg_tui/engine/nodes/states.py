"""Messages between a session's engine and a node's agent: the attempts assigned to slots, and their progress.

Each message is a complete state, so the next one makes up for a lost one, and a repeated one changes nothing.
"""

import json
import re
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from gmg_tui import model
from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Stop, Task
from gmg_tui.model.errors import GmgError
from gmg_tui.model.jobs import MAX_NAMES
from gmg_tui.model.text import encode_lossy
from gmg_tui.scripts.readers.reported import LIST_BYTES, MAX_LEVELS, MAX_TOTAL_BYTES
from gmg_tui.scripts.torchrun import stop_timeout_s
from gmg_tui.session.store.database import encode, encode_nan

_T = TypeVar("_T")

STALL_GRACE_S = 60.0
"""Additional time that an agent waits for its session's engine while connected: the network may stall."""
_ORPHAN_MARGIN_S = 10.0
"""Time allowed to a lost node's agent beyond that after which it should have ended its workers."""
MAX_PORTS = 8
"""Maximum number of ports in a report; groups that need more wait for the next report."""
_MAX_ATTEMPTS = 4096


class Assignment(Struct, frozen=True, omit_defaults=True):
    """An attempt for a slot to run. The session's engine decides whether another follows."""

    key: int
    """ID of the attempt, unique in the session. An assignment with another key replaces this one."""
    task: Task
    """The task with this attempt's arguments, environment and number."""
    stop: Stop | None = None
    signals: tuple[int, ...] = ()
    """The signals to pass on to the process, in order."""


class AttemptReport(Struct, frozen=True, omit_defaults=True):
    """A snapshot of an attempt; `key` is the key of its assignment."""

    key: int
    view: model.Worker
    activity: RankActivity | None = None
    """Activity of a rank, with times in seconds relative to the report (negative); None for a single process."""
    outcome: Outcome | None = None
    """The attempt's outcome; None until it has ended."""


class SlotReport(Struct, frozen=True, omit_defaults=True):
    """A slot's attempt, encoded: an untrusted agent's data may take far more memory when decoded."""

    attempt: bytes
    """An `AttemptReport` in MessagePack."""
    result: bytes = b"{}"
    """Values reported by `gmg:result` lines, in JSON as in the store."""
    curves: bytes = b""
    """The attempt's metrics over time in MessagePack, sent at intervals and at the end; empty in other reports."""

    @classmethod
    def from_attempt(cls, attempt: AttemptReport, result: dict[str, Any], curves: dict[str, model.Curve]) -> Self:
        """Returns the report, with each field encoded."""
        attempt_bytes = encode_lossy(msgspec.msgpack.encode, attempt)
        curves_bytes = encode_lossy(msgspec.msgpack.encode, curves) if curves else b""
        return cls(attempt_bytes, encode(encode_nan(result)).encode(), curves_bytes)


def orphan_end_s(spec: model.RunSpec) -> float:
    """Returns the seconds after which the agent of a lost node must have ended its workers."""
    wait_s = spec.nodes.orphan_wait_s if spec.nodes is not None else 0.0
    return wait_s + STALL_GRACE_S + stop_timeout_s(spec) + _ORPHAN_MARGIN_S


def decode_result(data: bytes) -> dict[str, Any]:
    """Returns the values of a `SlotReport.result`; none if they cannot be read, are too complex, or exceed 64 bits."""
    with suppress(ValueError, RecursionError, OverflowError, TypeError):  # `ValueError`: not JSON, or a huge integer
        msgspec.json.decode(data, type=msgspec.Raw)  # first validate it without making millions of lists
        if not _is_complex(data):
            for name, constant in _CONSTANTS.items():
                data = data.replace(name, constant)
            values = json.loads(data)
            msgspec.msgpack.encode(values)
            return msgspec.convert(values, _Result)
    return {}


def _is_complex(data: bytes) -> bool:
    """True if valid JSON has more levels than scripts may report, or very many lists and objects."""
    brackets = _JSON_TEXT.sub(b"", data).translate(_BRACKETS, _NO_BRACKETS)
    if len(brackets) > 2 * _MAX_RESULT_LISTS:
        return True
    for _ in range(MAX_LEVELS + 1):  # each removes the innermost level
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def decode(data: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    """Returns the value encoded in `data`, of type `kind`. Raises `GmgError` if it cannot be read."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GmgError(f"its agent's report cannot be read: {error}", 1) from None


_CONSTANTS = {b'"gmg:nan"': b"NaN", b'"gmg:inf"': b"Infinity", b'"gmg:-inf"': b"-Infinity"}
"""NaN and infinities as encoded by `encode_nan`, and as `json` decodes them."""
_MAX_RESULT_LISTS = MAX_TOTAL_BYTES // LIST_BYTES
_JSON_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKETS, _NO_BRACKETS = bytes.maketrans(b"{}", b"[]"), bytes(set(range(256)) - set(b"[]{}"))
_Result = Annotated[dict[str, Any], Meta(max_length=MAX_NAMES)]


class Report(Struct, frozen=True, omit_defaults=True):
    """An agent's report on its node: `attempts` by slot, and an address and ports for rendezvous."""

    attempts: Annotated[dict[str, SlotReport], Meta(max_length=_MAX_ATTEMPTS)] = {}
    address: Annotated[str, Meta(pattern=r"\A[\w.:%-]{0,255}\Z")] = ""
    """The node's address for other machines; empty if unknown."""
    ports: Annotated[tuple[Annotated[int, Meta(gt=0, lt=1 << 16)], ...], Meta(max_length=MAX_PORTS)] = ()
    """Free ports, each for the rendezvous of one group."""
    ended: bool = False
    """True if the agent was asked to end and no attempt is running any more."""


MAX_NODE_BYTES = 4 << 20
"""Size limit of an agent's message about its node, not counting its slots."""
CURVES_CUTOFF_BYTES = 4 << 20
"""An agent's message omits further curves once those in it exceed this size."""
MAX_SLOT_BYTES = 4 << 20
"""Size limit of a slot's result or curves, of which a script may have 1 and 3 MB."""
_MAX_KEPT_BYTES = {"result": 16 << 20, "curves": 256 << 20}
"""Size limits of what is kept of all slots; results may take ten times as much memory when decoded."""


class Sizes:
    """The sizes of what is kept of a node's reports, by slot and field."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[str, str], int] = {}

    def check(self, report: Report, slots: Container[str]) -> None:
        """Raises `GmgError` if the attempts on a node's slots, which a snapshot has all of, or new curves are too large."""
        kept = {key: size for key, size in self._bytes.items() if key[0] in slots}
        kept |= {(slot, "attempt"): len(each.attempt) for slot, each in report.attempts.items()}
        attempts = sum(size for key, size in kept.items() if key[1] == "attempt")
        curves = sum(len(each.curves) for each in report.attempts.values())
        if attempts > MAX_NODE_BYTES or curves > 2 * CURVES_CUTOFF_BYTES:
            raise GmgError(f"its agent reports too much: {attempts:,} bytes, and {curves:,} of curves", 1)
        self._bytes = kept

    def limit(self, slot: str, field: str, data: bytes) -> bytes:
        """Returns new data on a slot; nothing if it is too much, so that its last data stays."""
        others = sum(size for key, size in self._bytes.items() if key[1] == field and key[0] != slot)
        if len(data) > MAX_SLOT_BYTES or others + len(data) > _MAX_KEPT_BYTES[field]:
            return b""
        self._bytes[slot, field] = len(data) or self._bytes.get((slot, field), 0)
        return data


MAX_ANSWER_BYTES = 2 << 20
"""Size limit of an agent's answer to a question."""
_SLOT_NAME = re.compile(r"[a-z]{3}\d{1,4}[a-z0-9.-]{0,20}")
_MAX_SLOTS = 256
"""Maximum number of GPUs and MIG instances of a node."""
_MAX_SLOT_BYTES = 2048
"""Size limit of a slot's description, which goes with each task to other nodes."""
_UUID = re.compile(r"(GPU|MIG)-[\w/-]{1,100}")


def check_slots(slots: Sequence[model.Slot], node: str, spec: model.RunSpec) -> None:
    """Raises `GmgError` unless an agent's slots can be those of `node`.

    Those of other nodes must not share a name or a GPU with them, and a CPU slot has no GPU.
    """
    names, prefix = {slot.name for slot in slots}, f"{node}/"
    if not 0 < len(names) == len(slots) <= (spec.cpu or _MAX_SLOTS) or not all(
        slot.name.startswith(prefix)
        and _SLOT_NAME.fullmatch(slot.name, len(prefix))
        and (spec.cpu is None if slot.gpu is not None else spec.cpu is not None)
        and (slot.gpu is None or _UUID.fullmatch(slot.gpu.uuid))
        and len(msgspec.msgpack.encode(slot)) <= _MAX_SLOT_BYTES
        for slot in slots
    ):
        raise GmgError("it reports invalid slots", 1)


def slot_kinds(slots: Sequence[model.Slot]) -> list[tuple[str, str | None]]:
    """Returns each slot's GPU model, and its name on its node: nodes must agree on them to run the same jobs."""
    return [(slot.name.rpartition("/")[2], slot.gpu.name if slot.gpu is not None else None) for slot in slots]
