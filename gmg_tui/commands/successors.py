"""What takes the place of a session: a plain run with the value that a tuning has found, or the tuning of a number."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from msgspec import structs

from gmg_tui import machine, new_session
from gmg_tui import session as sessions
from gmg_tui.commands.messages import tell, tell_tuning
from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import fill_some
from gmg_tui.model import Batch, RestartMode, RunSpec, Session, SlotKind, SweepSpec, Tunable, TuneSpec
from gmg_tui.session import STORE

_INTERRUPTED = 130


def plain_run(session: Session, value: int, slots: Collection[str]) -> RunSpec:
    """The spec of the run on those of the session's slots, in a folder that is created here.

    It is that of the tuning, with the value in the place of the variable and without what only a tuning has. The GPUs
    are named by their UUIDs, so that they are the same ones whatever happens to the others.

    Raises:
        GmgError: Nothing was tuned in that session, or the folder cannot be created.
    """
    spec = session.spec
    if spec.tune is None:
        raise GmgError(f"nothing was tuned in {spec.name}", 1)
    variable = spec.tune.variable
    meant = [slot for slot in session.slots if slot.name in slots]
    gpus = dict.fromkeys(slot.gpu.uuid for slot in meant if slot.gpu is not None)
    shares = sum(slot.kind is SlotKind.CPU for slot in meant)
    return structs.replace(
        renamed(spec, spec.script),
        args=tuple(fill_some(text, {variable: value}) for text in spec.args),
        env={key: fill_some(text, {variable: value}) for key, text in spec.env.items()},
        gpus=",".join(gpus) or None,
        cpu=shares or None,
        sweep=None,
        tune=None,
    )


def renamed(spec: RunSpec, after: str) -> RunSpec:
    """A spec for another session, named `after` a script, in a folder that is created here. Raises `GmgError`."""
    name, folder = new_session.create(None, after)
    try:
        socket = sessions.socket_path(name)
    except GmgError:
        shutil.rmtree(folder)
        raise
    return structs.replace(spec, name=name, folder=str(folder), socket=str(socket), summary=None, host=machine.name())


def jobs_of(spec: RunSpec, asked: TuneSpec) -> SweepSpec:
    """The jobs of a tuning, none of which is known yet."""
    return SweepSpec(
        (Batch("", spec.script, spec.args, module=spec.module, gpus=spec.gpus, timeout_s=asked.trial_time_s),)
    )


def tuning_run(run: RunSpec, number: Tunable) -> RunSpec:
    """The spec of the tuning of a number of a plain run, on the same slots, in a folder that is created here.

    It begins well below the present value, and has the number's environment. A worker that is to be restarted for ever
    would never leave its slot to the next trial. Raises `GmgError`.
    """
    asked = TuneSpec(number.variable, max(1, min(TuneSpec().low, number.value // 4)))
    restart = RestartMode.FAILURE if run.restart is RestartMode.ALWAYS else run.restart
    spec = structs.replace(renamed(run, "tune"), args=number.args, env=number.env, restart=restart, tune=asked)
    return with_store(structs.replace(spec, sweep=jobs_of(spec, asked)))


def with_store(spec: RunSpec) -> RunSpec:
    """`spec`, with an empty store in its folder; raises `GmgError`, and then the folder is gone."""
    from gmg_tui.store import reader

    try:
        reader.create(Path(spec.folder) / STORE, ())
    except BaseException:
        shutil.rmtree(spec.folder, ignore_errors=True)
        raise
    return spec


def conclude(spec: RunSpec, status: int) -> int:
    """Say how to go on with a tuning that has ended; the exit status, which is that of the screen or the reporter."""
    if status == _INTERRUPTED:
        tell_tuning(spec.name)
    elif status:
        tell(f"no answer; `gmg-tui report {spec.name}` tells what was tried")
    return status
