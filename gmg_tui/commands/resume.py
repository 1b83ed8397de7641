"""What `sweep --resume` and `tune --resume` share: continuing a session that has ended or was lost, in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import interpreter
from gmg_tui import session as sessions
from gmg_tui.commands.messages import note
from gmg_tui.commands.spec import check_script
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec, Session
from gmg_tui.options import RUN, SWEEP, SWEEP_ONLY, TUNE, TUNE_ONLY, Options
from gmg_tui.session import machine, recovery


def session_of(options: Options, command: str, fixed: str) -> Session:
    """The session that `options.resume` names, which no engine runs.

    Args:
        options: The options; those on the command line may change only what has the command's mark.
        command: `sweep` or `tune`.
        fixed: What the other options would change, for the message.

    Raises:
        GmgError: There is none of that command, it is running, or an option would change what is fixed.
    """
    name, tables, mark = options.resume, (*RUN, *SWEEP_ONLY, *TUNE_ONLY), SWEEP if command == "sweep" else TUNE
    allowed = {opt.name for opt in tables if mark in opt.marks}
    names = {opt.name: opt.long for opt in tables}
    names |= {"script": "SCRIPT", "args": "its arguments", "words": "FILE", "is_script": "--script", "module": "-m"}
    if wrong := [names[key] for key in sorted(options.given) if key not in allowed]:
        raise GmgError(f"--resume {name}: {fixed} cannot change; leave out {', '.join(wrong)}")
    recovery.clear(note)
    entry = sessions.find(name, running=False)
    if entry.state == "running":
        raise GmgError(entry.remark or f"{name} is running; open it with: gmg-tui attach {name}", 1)
    if entry.state == "lost" and entry.record.loss is None:
        raise GmgError(f"{name} was lost and some of its processes are still running; try again", 1)
    spec = entry.record.session.spec
    kind = "tune" if spec.tune is not None else "sweep" if spec.sweep is not None else "run"
    if kind != command:
        again = f"start it again with: gmg-tui {spec.script}"
        other = f"continue it with: gmg-tui {kind} --resume {name}" if kind != "run" else again
        raise GmgError(f"{name} is no session of gmg-tui {command}; {other}")
    return entry.record.session


def changed_spec(spec: RunSpec, fields: Mapping[str, Any], options: Options) -> RunSpec:
    """The session's spec with the changes of the command line, of which `fields` are the checked values.

    Raises:
        GmgError: An option does not fit the session, or a file that its jobs need is gone.
    """
    changed = [opt.spec_field for opt in RUN if opt.name in options.given and opt.spec_field in fields]
    changes = {field: fields[field] for field in changed}
    if options.given.get("virtual_local_rank") and spec.ddp is not None:
        changes["ddp"] = structs.replace(spec.ddp, virtual_local_rank=True)
    changes |= {"env": spec.env | fields["env"], "host": machine.name(), "socket": str(sessions.socket_path(spec.name))}
    spec = structs.replace(spec, **changes)
    if not Path(spec.cwd).is_dir():
        raise GmgError(f"{spec.name} ran in {spec.cwd}, which is gone; create it again", 1)
    interpreter.check_python(spec.python)
    check_script(spec.script if spec.module else str(Path(spec.cwd, spec.script)), spec.module)
    return spec
