"""The text of a file for sbatch that runs a session without a screen, saves before its limit, and goes on when requeued."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

_HEAD = """\
#!/bin/bash
{directives}

gmg_tui={program}
name={name}-$SLURM_JOB_ID
"""
_SWEEP = """
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    # Its machine may be gone; of a session that has ended this says so, and nothing else.
    "$gmg_tui" stop --gone "$name" || true
    "$gmg_tui" {command} --headless --resume "$name" &
else
    "$gmg_tui" {command} --headless --name "$name" {words} &
fi
session=$!

# Before the limit: the jobs that run are stopped and wait again, and Slurm starts this file anew.
save() {{
    "$gmg_tui" stop "$name"
    wait "$session"
    scontrol requeue "$SLURM_JOB_ID"
}}
"""
_RUN = """
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    name=$name-$SLURM_RESTART_COUNT
fi
"$gmg_tui" {command} --headless --name "$name" {words} &
session=$!

# Before the limit: the signal is passed on to the scripts that handle it, so that they save.
save() {{
    kill -USR1 "$session"
}}
"""
_TAIL = """\
trap save USR1
trap 'kill -TERM "$session"' TERM

# A signal ends `wait`, but not the session.
status=0
while kill -0 "$session" 2>/dev/null; do
    wait "$session"
    status=$?
done
exit "$status"
"""
RESUMED = frozenset({"sweep", "tune"})
"""The commands whose sessions a requeued job goes on with."""
COMMANDS = RESUMED | {"run", "demo"}


class Wanted(NamedTuple):
    """What is asked of Slurm."""

    name: str
    """The job's."""
    gpus_per_node: int | None
    time: str | None = None
    """The limit, as sbatch takes it; None for the partition's."""
    partition: str | None = None
    save_before_s: int = 300
    """How long before the limit the session saves."""
    further: tuple[str, ...] = ()
    """Options of sbatch, a word each."""


def says_nodes(options: Sequence[str]) -> bool:
    """Whether one of these options of sbatch says how many nodes the job has."""
    return any(re.match(r"--nodes[ =]|-N", option) for option in options)


def text(wanted: Wanted, program: str, command: str, words: Sequence[str]) -> str:
    """The whole file, for `gmg-tui COMMAND WORDS...`, where `program` is the path of gmg-tui."""
    directives = [
        f"--job-name={wanted.name}",
        *([] if says_nodes(wanted.further) else ["--nodes=1"]),
        "--ntasks-per-node=1",  # with `--ntasks=1` sbatch gives one node, however many are asked for
        *([f"--gpus-per-node={wanted.gpus_per_node}"] if wanted.gpus_per_node else []),
        *([f"--time={wanted.time}"] if wanted.time else []),
        *([f"--partition={wanted.partition}"] if wanted.partition else []),
        "--output=%x-%j.log",
        "--open-mode=append",
        "--requeue",
        f"--signal=B:USR1@{wanted.save_before_s}",
        *wanted.further,
    ]
    lines = "\n".join(f"#SBATCH {directive}" for directive in directives)
    head = _HEAD.format(directives=lines, program=shlex.quote(program), name=shlex.quote(wanted.name))
    body = (_SWEEP if command in RESUMED else _RUN).format(command=command, words=shlex.join(words))
    return head + body + _TAIL
