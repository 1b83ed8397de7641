"""A comparison for other programs: JSON, and CSV with a row for each job of each session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from gmg_tui.report.compare.comparison import Comparison, Setting
from gmg_tui.report.compare.remarks import remarks
from gmg_tui.report.compare.sides import Side
from gmg_tui.results.detailed import rounded
from gmg_tui.results.summary import cells, columns, line


def as_json(made: Comparison) -> bytes:
    """All of it; what is not known is null."""
    said = {
        "sessions": [_session(side) for side in made.sides],
        "differences": [_setting(one) | {"values": list(one.values)} for one in made.differences],
        "same": [_setting(one) | {"value": one.values[0]} for one in made.same],
        f"{made.unit}s": [
            {
                made.unit: row.key,
                "fps_settled": list(map(rounded, row.fps)),
                "change_pct": list(map(rounded, row.change_pct)),
            }
            for row in made.rows
        ],
        "changes": [
            {
                "session": side.name,
                "against": made.sides[0].name,
                "mean_pct": rounded(change.mean_pct),
                "margin_95_pct": rounded(change.margin_pct),
                "total_pct": rounded(change.total_pct),
                "pairs": change.pairs,
            }
            for side, change in zip(made.sides, made.changes, strict=True)
            if change is not None
        ],
        "remarks": remarks(made),
    }
    return msgspec.json.format(msgspec.json.encode(said), indent=2) + b"\n"


def as_csv(made: Comparison) -> Iterator[bytes]:
    """The rows of `summary_results.csv`, after their session's name; then the change, and what differs, as `KIND:NAME`."""
    wanted = columns([job for side in made.sides for job in side.data.jobs])
    apart = [f"{one.name.kind}:{one.name.name}" for one in made.differences]
    yield line(("session", *wanted.header, "change_pct", *apart)).encode(errors="replace")
    changes = {row.key: row.change_pct for row in made.rows}
    for place, side in enumerate(made.sides):
        values = [one.values[place] for one in made.differences]
        for job in side.data.jobs:
            change = rounded(changes[side.key(job)][place])
            yield line((side.name, *cells(job, wanted), change, *values)).encode(errors="replace")


def _setting(one: Setting) -> dict[str, Any]:
    return {"kind": one.name.kind, "name": one.name.name}


def _session(side: Side) -> dict[str, Any]:
    session = side.data.session
    started = None if session is None else datetime.fromtimestamp(session.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "session": side.name,
        "state": side.state,
        "simulated": side.simulated,
        "started": started,
        "mean_fps_settled": rounded(side.mean_fps),
        "spread_pct": rounded(side.spread_pct),
        "total_fps_settled": rounded(side.total_fps),
    }
