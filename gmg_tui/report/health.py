"""What has happened to the health of a session's GPUs, for programs: Xids, errors of the memory, links that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gmg_tui.report.data import ReportData
from gmg_tui.results.detailed import moment
from gmg_tui.store.records import Event

XID = "xid"
KINDS = frozenset({XID, "health"})
"""The kinds of events about GPUs themselves."""
_GPU = re.compile(r"(?:GPU (?P<index>\d+) \((?P<uuid>[^)]*)\)|(?P<only>\S+)): (?P<text>.*)", re.DOTALL)
_CODE = re.compile(r"Xid (\d+)\b")


def events(data: ReportData) -> Iterator[Event]:
    """Those of the session's events that are about its GPUs' health, the oldest first."""
    return (event for event in data.events if event.kind in KINDS)


def as_json(data: ReportData) -> list[dict[str, Any]]:
    """The same as JSON has them: each with its time, slot, GPU, Xid (null where it is none), and what it means."""
    return [_event(event) for event in events(data)]


def _event(event: Event) -> dict[str, Any]:
    found = _GPU.fullmatch(event.text)
    text = found["text"] if found is not None else event.text
    gpu = None
    if found is not None:
        gpu = {"index": int(found["index"]) if found["index"] else None, "uuid": found["uuid"] or found["only"]}
    code = _CODE.match(text) if event.kind == XID else None
    return {
        "time": moment(event.time),
        "kind": event.kind,
        "slot": event.slot or None,
        "gpu": gpu,
        "code": int(code[1]) if code is not None else None,
        "text": text,
    }
