"""Why an attempt failed: from its output, from what a rank has recorded, and from its GPU's health."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.attempts.context import DriverSilentError
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.gpu.nvml import NvmlUnavailable
from gmg_tui.model import GpuSample, RunSpec, units
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import torchrun
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind, explain_recorded

_log = logging.getLogger(__name__)

_DISK_S = 10.0
"""How long the disk may take to give a rank's error file."""
_REFUSED = re.compile(r"unrecogni[sz]ed|no such option|unknown", re.IGNORECASE)
"""What argparse, click and getopt print about an option that a script does not have."""


async def failure_of(attempt: RunningAttempt, exit_code: int) -> Failure | None:
    """Why an attempt failed; None when it finished, or was ended by the user or with its group."""
    if attempt.by_user or attempt.by_group:
        return None
    if attempt.timed_out:
        return Failure(FailureKind.UNKNOWN, f"timed out after {units.span(attempt.task.timeout_s or 0.0)}", "")
    if exit_code == 0:
        return None
    failure = _with_order(attempt.reader.failure(exit_code), attempt.spec)
    vague = failure.kind in (FailureKind.UNKNOWN, FailureKind.KILLED)
    if attempt.launch.meeting is not None and vague:  # its record has more detail
        recorded = await recorded_in(Path(attempt.launch.meeting.error_file))
        failure = explain_recorded(recorded) if recorded is not None else failure
    return failure


def of_preparation(error: NvmlUnavailable | GmgError) -> Failure:
    """Why an attempt could not be prepared."""
    kind = FailureKind.DEVICE if isinstance(error, NvmlUnavailable) else FailureKind.CONFIG
    return Failure(FailureKind.DRIVER if isinstance(error, DriverSilentError) else kind, str(error), "")


def of_gpu(failure: Failure, sample: GpuSample | None) -> Failure:
    """`failure` with the GPU as the cause where the driver has lost that: CUDA only reports that a call failed."""
    if sample is None or not sample.lost:
        return failure
    why = sample.error or "the GPU is lost"
    return Failure(FailureKind.DEVICE, why, f"the script ended with {failure.reason}")


def _with_order(failure: Failure, spec: RunSpec) -> Failure:
    """`failure` with the right order as its advice where the script has refused an option of gmg-tui's.

    In `gmg-tui sim.py --gpus 0,1` the option is the script's own.
    """
    words = failure.reason.replace("=", " ").replace("'", " ").split()
    refused = [option for option in spec.own_options if option in words]
    if not refused or _REFUSED.search(failure.reason) is None:
        return failure
    goes = "goes" if len(refused) == 1 else "go"
    order = " ".join([*(f"{option} …" for option in refused), *(["-m"] if spec.module else [])])
    advice = f"gmg-tui's {' and '.join(refused)} {goes} before the script: gmg-tui {order} {spec.script}"
    return failure._replace(advice=advice)


async def recorded_in(path: Path) -> torchrun.Recorded | None:
    """What a rank has recorded in its error file; None where it has nothing, or the disk does not answer in time."""
    try:
        async with asyncio.timeout(_DISK_S):
            return await in_daemon_thread(torchrun.recorded, path)
    except TimeoutError:
        _log.warning("%s: the disk does not answer; what the rank recorded there is not read", path)
        return None
