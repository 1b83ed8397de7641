"""The NVML indices of all GPUs as a process that starts now counts them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui.gpu import helper

_PROGRAM = Path(__file__).with_name("index_probe.py")


class _Answer(Struct):
    indices: dict[str, int] | None = None
    error: int | None = None


async def ask(timeout_s: float) -> dict[str, int]:
    """The indices by UUID, asked in a helper process; a GPU that is lost is not among them.

    Raises `helper.NoAnswerError`.
    """
    try:
        answer = msgspec.json.decode(await helper.ask(_PROGRAM, "NVML", os.environ, timeout_s), type=_Answer)
    except msgspec.DecodeError as error:
        raise helper.NoAnswerError("the process that asked NVML gave no answer that can be read") from error
    if answer.indices is None:
        raise helper.NoAnswerError(f"NVML fails in a fresh process: error {answer.error}", transient=True)
    return answer.indices
