"""The meanings of Xids, the driver's error codes of a GPU, with advice (`xids.toml`)."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from gmg_tui.model import GpuTrouble, Xid


class Meaning(NamedTuple):
    """The meaning of an Xid."""

    severity: str
    """`fatal`, `degraded`, or `script` if a script is the cause."""
    text: str
    advice: str


_UNKNOWN = "degraded", "an error of the GPU or the driver", "`dmesg` and NVIDIA's list of Xids have more"


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("gmg_tui.machine.gpu").joinpath("xids.toml").read_text("utf-8"))


def advice(name: str) -> str:
    """Returns the advice of that name in `xids.toml`, or the text itself."""
    return str(_tables()["advice"].get(name, name))


def meaning(code: int) -> Meaning:
    """Returns the meaning of an Xid; unknown codes count as degraded."""
    severity, text, named = _tables()["xids"].get(str(code), _UNKNOWN)
    return Meaning(severity, text, advice(named))


def trouble(xid: Xid) -> GpuTrouble | None:
    """Returns the trouble of a GPU with an Xid; None if a script is the cause."""
    fault = meaning(xid.code)
    if fault.severity == "script":
        return None
    times = f" ({xid.count} times)" if xid.count > 1 else ""
    return GpuTrouble(fault.severity == "fatal", f"Xid {xid.code}{times}: {fault.text}", fault.advice)
