"""`slurm-script`: print a file for sbatch that runs a session."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from gmg_tui.errors import GmgError
from gmg_tui.model import LauncherKind
from gmg_tui.slurm import batch_file
from gmg_tui.sweep import checks, names

_OWN = ("--name", "--resume", "--detach", "--headless")
"""Options that the file gives itself."""
_LEAST_S, _MOST_S = 10, 65535
"""As sbatch's `--signal` has it."""


def slurm_script(
    words: Sequence[str],
    *,
    own: Sequence[str],
    gpus_per_node: int,
    time: str | None,
    partition: str | None,
    save_before: str,
    sbatch: Sequence[str],
) -> int:
    """Print the file for `gmg-tui WORDS...`, whose first word is the command, and of which `own` are not the script's.

    Raises:
        GmgError: The command is none that runs a session, or an option has an invalid value.
    """
    command, *rest = words
    if command not in batch_file.COMMANDS:
        raise GmgError(f"slurm-script {command}: give what runs a session: SCRIPT, sweep FILE, tune SCRIPT, or demo")
    given = next((name for word in own if (name := word.partition("=")[0]) in _OWN), None)
    if given is not None:
        raise GmgError(f"slurm-script: leave out {given}, which the file gives itself")
    if gpus_per_node < 1:
        raise GmgError(f"--gpus-per-node {gpus_per_node}: give at least 1")
    before_s = checks.timeout_s("--save-before", save_before)
    if not _LEAST_S <= before_s <= _MOST_S:
        raise GmgError(f"--save-before {save_before}: give a time from {_LEAST_S} s to 18h")
    if any(not option.startswith("-") or "\n" in option for option in sbatch):
        raise GmgError("--sbatch: give an option of sbatch in one word each, as in --sbatch=--account=robots")
    if _nodes(own) == LauncherKind.SLURM and not batch_file.says_nodes(sbatch):
        raise GmgError("slurm-script --nodes slurm: say how many nodes the job has, as in --sbatch=--nodes=2")
    wanted = batch_file.Wanted(
        _name(command, rest),
        None if _on_cpu(own) else gpus_per_node,
        time,
        partition,
        int(before_s),
        tuple(sbatch),
    )
    print(batch_file.text(wanted, _program(), command, rest), end="")
    return 0


def _name(command: str, words: Sequence[str]) -> str:
    """The job's name: that of the script or the file."""
    named = next((word for word in words if Path(word).suffix in {".py", ".toml"}), command)
    return names.safe(Path(named).stem).lstrip(".-=,+") or command


def _on_cpu(words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] == "--cpu" for word in words)


def _nodes(words: Sequence[str]) -> str | None:
    """What `--nodes` says; None where it is not given."""
    found = None
    for word, value in zip_longest(words, words[1:]):
        name, joined, rest = word.partition("=")
        if name == "--nodes":
            found = rest if joined else value
    return found


def _program() -> str:
    """This gmg-tui's path, which is found whatever the job's PATH is."""
    beside = Path(sys.executable).with_name("gmg-tui")
    return str(beside) if beside.exists() else "gmg-tui"
