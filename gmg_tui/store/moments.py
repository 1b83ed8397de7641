"""Whole snapshots of a session, kept over its life: what a screen shows that looks back.

They are as a client got them, in MessagePack, compressed; where they become too many, as in a long session, some in
between go, so that the others are spread evenly over its life.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from gmg_tui.model import Snapshot
from gmg_tui.store.records import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from sqlite3 import Connection

MOST: Final = 4096
"""So many are kept at most: an hour in steps of 10 s and with each change, a day in steps of about a minute."""
MOST_BYTES: Final = 48 << 20
"""And so much, compressed: some minutes between two of 512 slots over a day."""
_LARGEST_BYTES: Final = 64 << 20
"""One that is longer is none of ours."""
_LEVEL: Final = 1
"""Of zlib: a snapshot shrinks to a quarter at a fifth of the default's cost."""
_ALL: Final = "SELECT id, time FROM moments WHERE time BETWEEN 0 AND 1e11 ORDER BY time, id"
_SIZE: Final = "SELECT count(*), coalesce(sum(length(snapshot)), 0) FROM moments"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


class Moment(NamedTuple):
    """A snapshot at its time."""

    time: float
    """Unix time, seconds."""
    encoded: bytes
    """The snapshot, in MessagePack."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Moment:
        """The moment of a snapshot."""
        return cls(snapshot.time, _encoder.encode(snapshot))


def put(db: Connection, moments: Iterable[Moment]) -> None:
    """Insert moments, and thin out all where they are too many; in a transaction of the caller's."""
    rows = [(one.time, zlib.compress(one.encoded, _LEVEL)) for one in moments]
    if not rows:
        return
    db.executemany("INSERT INTO moments (time, snapshot) VALUES (?, ?)", rows)
    count, size_bytes = db.execute(_SIZE).fetchone()
    if count > MOST or size_bytes > MOST_BYTES:
        found = db.execute(_ALL).fetchall()
        kept = spread(found, len(found) // 2)
        db.executemany("DELETE FROM moments WHERE id = ?", [(number,) for number, _ in found if number not in kept])


def spread(moments: list[tuple[int, float]], most: int) -> set[int]:
    """The numbers of at most `most` of the moments (number and time, in order), evenly over time, the last among them."""
    (_, first), (newest, last) = moments[0], moments[-1]
    step_s = (last - first) / max(1, most - 1)
    kept, due = {newest}, first
    for number, time in moments:
        if time >= due and len(kept) < most:
            kept.add(number)
            due = time + step_s
    return kept


def times(db: Connection) -> list[tuple[int, float]]:
    """All moments, as number and Unix time, in order of time."""
    return db.execute(_ALL).fetchall()


def read(db: Connection, number: int) -> Snapshot | None:
    """The snapshot of a moment; None where it is not kept any more.

    Raises:
        StoreError: It is damaged, or holds a value that this version does not know.
    """
    row = db.execute("SELECT snapshot FROM moments WHERE id = ?", (number,)).fetchone()
    if row is None:
        return None
    try:
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(row[0], _LARGEST_BYTES)
        if decompressor.unconsumed_tail:
            raise StoreError("the store holds a snapshot that is too large")
        return _decoder.decode(data)
    except (zlib.error, TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise StoreError(f"the store holds a snapshot that this gmg-tui does not know: {error}") from error
