"""Determines why an attempt failed, from its output, a rank's error file and the GPU's health."""

import asyncio
import errno
import logging
import os
import re
import time
from pathlib import Path

from gmg_tui.engine.attempts.attempt import Outcome, Stop, StopCause
from gmg_tui.engine.attempts.process import ENV_ERROR_PREFIX, ENV_EXIT_CODES
from gmg_tui.engine.attempts.readings import Readings
from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.gpu.nvml import NvmlUnavailable
from gmg_tui.model import GpuSample, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean
from gmg_tui.scripts import interpreter, torchrun
from gmg_tui.scripts.genesis.output.failures import SEE_LOG, Failure, FailureKind, explain_recorded

_log = logging.getLogger(__name__)

_DISK_TIMEOUT_S = 10.0
"""Time limit for reading a rank's error file."""
_REJECTION = re.compile(r"unrecogni[sz]ed|no such option|unknown", re.IGNORECASE)
"""Words with which argparse, Click and getopt reject an unknown option."""
_EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of fork(2) and pipe(2) that pass once others end."""


class DriverSilentError(NvmlUnavailable):
    """The driver has not answered in time."""


async def outcome_of(
    readings: Readings, spec: RunSpec, exit_code: int | None, stop: Stop | None, survivors: str | None
) -> Outcome:
    """Returns the outcome of an attempt; `survivors` describes processes that survived SIGKILL, if any."""
    cause, failure, progress = stop.cause if stop is not None else None, None, readings.reader.progress
    is_complete = progress is not None and progress.is_complete
    if survivors is not None:
        failure = Failure(FailureKind.UNKNOWN, survivors, "")
    elif stop is not None and cause in (StopCause.ALERT, StopCause.TIMEOUT):
        failure = Failure(FailureKind.UNKNOWN, stop.reason or stop.cause, "")
    elif stop is None and exit_code:
        failure = await _failure_of(readings, spec, exit_code)
    elif stop is None and readings.unclean is not None and readings.launch.task.job is not None and not is_complete:
        # Exit code 0 counts as finished, but `--resume` must not skip a job that printed an exception.
        failure = Failure(FailureKind.SCRIPT, f"exit code 0 after {readings.unclean}", SEE_LOG)
    crashed_at_exit = exit_code is not None and exit_code < 0 and readings.counts.reports.has_ended_cleanly
    if failure is not None and crashed_at_exit and stop is None:
        failure = failure._replace(advice="it crashed after the script's end, so its results may be complete")
    return Outcome(
        failure,
        cause if survivors is None else None,
        crashed_at_exit=crashed_at_exit,
        had_progress=readings.had_progress,
        running_s=readings.reader.running_s(time.monotonic()),
    )


async def _failure_of(readings: Readings, spec: RunSpec, exit_code: int) -> Failure:
    """Returns the failure of an attempt that ended on its own."""
    env_error = _env_error(readings.newest_line, readings.launch.command[0]) if exit_code in ENV_EXIT_CODES else None
    if env_error is not None:
        return Failure(FailureKind.CONFIG, env_error, "")
    failure = _advise_install(_advise_order(readings.reader.failure(exit_code), spec), spec)
    rendezvous = readings.launch.rendezvous
    is_vague = failure.kind in (FailureKind.UNKNOWN, FailureKind.KILLED)
    if rendezvous is not None and is_vague:  # the rank's error file has more detail
        recorded = await read_error_file(Path(rendezvous.error_file))
        failure = explain_recorded(recorded) if recorded is not None else failure
    if failure.kind is FailureKind.FOLDER_RACE and readings.launch.task.count == 1:  # no other worker
        return failure._replace(kind=FailureKind.SCRIPT, advice="")
    return failure


def _env_error(line: bytes, program: str) -> str | None:
    """Returns env(1)'s error for the working directory or `program`; None if the line is the script's."""
    if not line.startswith(ENV_ERROR_PREFIX):
        return None
    text = clean(line.removeprefix(ENV_ERROR_PREFIX)).replace("‘", "'").replace("’", "'")
    return text.replace(f"'{program}'", f"cannot start {program}", 1)


def outcome_of_failed_preparation(error: NvmlUnavailable | GmgError | OSError) -> Outcome:
    """Returns the outcome of an attempt that could not be prepared: the cause is its slot or machine, never its job."""
    match error:
        case DriverSilentError():
            kind = FailureKind.DRIVER
        case NvmlUnavailable():
            kind = FailureKind.DEVICE
        case _:
            kind = FailureKind.MACHINE
    return Outcome(Failure(kind, str(error), ""), unready=str(error))


def outcome_of_failed_start(program: str, error: OSError | RuntimeError) -> Outcome:
    """Returns the outcome of an attempt whose process could not be started; a job runs again if only the machine was full."""
    reason = f"cannot start {program}: {(error.strerror or error) if isinstance(error, OSError) else error}"
    if isinstance(error, OSError) and error.errno not in _EXHAUSTED:
        return Outcome(Failure(FailureKind.CONFIG, reason, ""))
    advice = "too many processes, too many open files or too little memory: see `ulimit -a`, and the container's limits"
    return Outcome(Failure(FailureKind.MACHINE, reason, advice), unready=reason)


def blame_gpu(failure: Failure, sample: GpuSample | None) -> Failure:
    """Returns `failure`, blamed on the GPU if the driver has lost it: CUDA reports only a failed call.

    An Xid or ECC error that benches the GPU confirms what the script's output suggests.
    """
    fatal = sample.health.fatal if sample is not None and sample.health is not None else None
    if failure.suspect and fatal is not None:
        return failure._replace(kind=FailureKind.LOST, advice=f"{fatal.text}; {fatal.advice}")
    if sample is None or not sample.lost:
        return failure
    reason = sample.error or "the GPU is lost"
    return Failure(FailureKind.LOST, reason, f"the script ended with {failure.reason}")


def _advise_order(failure: Failure, spec: RunSpec) -> Failure:
    """Returns `failure`, with the right order of arguments as advice if the script rejected gmg-tui's options.

    `gmg-tui sim.py --gpus 0,1`, for example, passes the option to the script.
    """
    words = failure.reason.replace("=", " ").replace("'", " ").split()
    refused = [option for option in spec.own_options if option in words]
    if not refused or _REJECTION.search(failure.reason) is None:
        return failure
    verb = "goes" if len(refused) == 1 else "go"
    usage = " ".join([*(f"{option} …" for option in refused), *(["-m"] if spec.module else [])])
    advice = f"gmg-tui's {' and '.join(refused)} {verb} before the script: gmg-tui {usage} {spec.script}"
    return failure._replace(advice=advice)


def _advise_install(failure: Failure, spec: RunSpec) -> Failure:
    """Returns `failure`, with advice on where to install a missing module."""
    if "No module named" not in failure.reason:
        return failure
    python = interpreter.origin(spec.python, os.environ, "--python" if spec.python_given else None)
    package = "Genesis (gmg-tui doctor shows how)" if failure.kind is FailureKind.CONFIG else "it"
    return failure._replace(advice=f"install {package} for {python}, or choose another interpreter with --python")


async def read_error_file(path: Path) -> torchrun.RecordedError | None:
    """Reads a rank's error file. Returns None if it is missing or the disk does not answer in time."""
    try:
        async with asyncio.timeout(_DISK_TIMEOUT_S):
            return await in_daemon_thread(torchrun.read_error_file, path)
    except TimeoutError:
        _log.warning("%s: the disk does not answer; the rank's error file is ignored", path)
        return None
