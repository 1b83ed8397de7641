"""The meanings of Xids, the driver's GPU error codes, with advice (`xids.toml`)."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from gmg_tui.model import GpuTrouble, Xid


class Meaning(NamedTuple):
    """The meaning of an Xid."""

    severity: str
    """`fatal`, `degraded`, or `script` if a script is the cause."""
    text: str
    advice: str


_UNKNOWN = Meaning("degraded", "an error of the GPU or the driver", "`dmesg` and NVIDIA's list of Xids have details")


class _Tables(msgspec.Struct):
    advice: dict[str, str]
    xids: dict[str, Meaning]


@cache
def _tables() -> _Tables:
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Tables)


def advice(name: str) -> str:
    """Returns the advice of that name in `xids.toml`, or `name` itself if there is none."""
    return _tables().advice.get(name, name)


def meaning(code: int) -> Meaning:
    """Returns the meaning of an Xid; unknown codes count as degraded."""
    row = _tables().xids.get(str(code), _UNKNOWN)
    return row._replace(advice=advice(row.advice))


def trouble(xid: Xid) -> GpuTrouble | None:
    """Returns the GPU fault that an Xid reports; None if a script is the cause."""
    fault = meaning(xid.code)
    if fault.severity == "script":
        return None
    times = f" ({xid.count} times)" if xid.count > 1 else ""
    return GpuTrouble(fault.severity == "fatal", f"Xid {xid.code}{times}: {fault.text}", fault.advice)
