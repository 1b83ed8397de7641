"""Structs as rows of the store's tables, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from gmg_tui.model import Attempt, AttemptMetrics, Fps, JobRecord, Session, WorkerState
from gmg_tui.store.records import Event, JobAttempt, MetricsRow, StoreError

if TYPE_CHECKING:
    from sqlite3 import Connection

_T = TypeVar("_T")
_S = TypeVar("_S", bound=Struct)
Row = tuple[Any, ...]

_COLUMNS = {
    "batch": "job_group",
    "values": "job_values",
    "position": "place",
    "metrics": "figures",
    "only": "only_slot",
    "group": "in_group",
}
"""The columns that are not named after their field."""


def encode(value: Any) -> str:
    """`value` as JSON text, whatever a script has reported.

    Half a surrogate pair becomes `?`; integers beyond 64 bits are kept; what is nested too deeply to be written, or has
    thousands of digits, becomes null.
    """
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, RecursionError):
        pass  # the standard library is slower and accepts more
    try:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
    except (ValueError, RecursionError):
        return "null"


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


_FROM_COLUMN: dict[str, Callable[[Any], Any]] = {
    "state": WorkerState,
    "values": lambda text: _decode(text) or {},
    "result": lambda text: (_decode(text) or {}) if text else {},
    "args": lambda text: tuple(_decode(text)),
    "slots": lambda text: tuple(_decode(text)),
    "metrics": lambda text: msgspec.json.decode(text, type=AttemptMetrics),
}
"""What makes a field's value of its column, where that is not the value itself."""


def _to_column(value: Any) -> Any:
    """`value` as SQLite takes it: a number, text (a file name may hold bytes that are none), or JSON."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(value) if value.isascii() else value.encode(errors="replace").decode()
    return encode(value)


class Table(Generic[_S]):
    """How structs of one kind are stored: a column for each field, a nested struct's fields in columns of the same row.

    `inner` is the field that holds a nested struct, an `inner_kind`, whose columns have names with `prefix`. `kept` is a
    JSON field that stays as it is in the store where a struct has None; `order` is the primary key then.

    Attributes:
        put: The statement that inserts or replaces a row.
        get: The query for all rows.
    """

    def __init__(
        self,
        name: str,
        kind: type[_S],
        order: str,
        inner: str = "",
        inner_kind: type[Struct] | None = None,
        prefix: str = "",
        kept: str = "",
    ) -> None:
        self._kind = kind
        self._kept = kept
        self._fields = tuple(field for field in kind.__struct_fields__ if field != inner)
        self._inner = inner
        self._inner_kind = inner_kind
        self._inner_fields = inner_kind.__struct_fields__ if inner_kind else ()
        self._values = attrgetter(*self._fields)
        self._inner_values = attrgetter(*self._inner_fields) if inner_kind else tuple
        own = [_COLUMNS.get(field, field) for field in self._fields]
        columns = [*own, *(prefix + _COLUMNS.get(field, field) for field in self._inner_fields)]
        self.put = insert(name, columns)
        if kept:
            changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column != kept)
            stays = f"{kept} = CASE excluded.{kept} WHEN '' THEN {name}.{kept} ELSE excluded.{kept} END"
            into = self.put.replace("INSERT OR REPLACE", "INSERT")
            self.put = f"{into} ON CONFLICT ({order}) DO UPDATE SET {changes}, {stays}"
        self.get = f"SELECT {', '.join(columns)} FROM {name} ORDER BY {order}"  # noqa: S608 - names from this file

    def to_row(self, one: _S) -> Row:
        """The row for `one`."""
        values: Row = self._values(one)
        if self._kept and getattr(one, self._kept) is None:
            values = tuple(
                "" if field == self._kept else value for field, value in zip(self._fields, values, strict=True)
            )
        if self._inner_kind:
            inner = getattr(one, self._inner)
            values += (None,) * len(self._inner_fields) if inner is None else self._inner_values(inner)
        return tuple([_to_column(value) for value in values])

    def from_row(self, row: Row) -> _S:
        """The struct of a row; without its nested struct where that one's first column is empty."""
        count = len(self._fields)
        values = _values(self._fields, row[:count])
        if self._inner_kind:
            inner = row[count:]
            values[self._inner] = None if inner[0] is None else self._inner_kind(**_values(self._inner_fields, inner))
        return self._kind(**values)

    def read(self, db: Connection, *parameters: object) -> list[_S]:
        """All rows. Raises `StoreError` as `read`."""
        return read(db, self.get, self.from_row, *parameters)


def _values(fields: Sequence[str], row: Row) -> dict[str, Any]:
    return {
        field: value if value is None or field not in _FROM_COLUMN else _FROM_COLUMN[field](value)
        for field, value in zip(fields, row, strict=True)
    }


def insert(table: str, columns: Sequence[str]) -> str:
    """The statement that inserts or replaces a row of `table`."""
    marks = ", ".join("?" for _ in columns)
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608


JOBS = Table("jobs", JobRecord, "number", "fps", Fps, "fps_", kept="result")
ATTEMPTS = Table("attempts", JobAttempt, "job, number, rank", "attempt", Attempt)
EVENTS = Table("events", Event, "id DESC LIMIT ?")
PUT_METRICS = insert("figures", MetricsRow._fields)
PUT_META = insert("meta", ("key", "value"))
GET_SESSION = "SELECT value FROM meta WHERE key = 'session'"


def read(db: Connection, query: str, make: Callable[[Row], _T], *parameters: object) -> list[_T]:
    """What `make` makes of the rows of `query`.

    Raises:
        StoreError: A row holds a value that this version does not know.
    """
    try:
        return [make(row) for row in db.execute(query, parameters)]
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise StoreError(f"the store holds a value that this gmg-tui does not know: {error}") from error


def to_session(row: Row | None) -> Session | None:
    """The session of a row of `meta`; None where none is written yet."""
    return None if row is None else msgspec.json.decode(row[0], type=Session)
