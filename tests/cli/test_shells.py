"""Completion in a real zsh and a real fish, with the scripts that `gmg-tui completion` prints."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import ScriptedEngine, environ

_PATIENCE_S = 60
_ZSH = (
    "PROMPT='READY> '; unset zle_bracketed_paste; autoload -U compinit; compinit -u -D; source {script}; "
    "show() {{ print -rn -- \"<<$BUFFER>>\" }}; zle -N show; bindkey '^T' show; print ALL''SET"
)
"""Ctrl+T shows the line as it is: zsh reads it once the completion is over."""

Completes = Callable[[str], list[str]]


def _place(folder: Path, shell: str) -> tuple[Path, dict[str, str]]:
    """The script for a shell, and an environment in which it finds gmg-tui and no settings of the user's."""
    program = folder / "bin" / "gmg-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gmg_tui "$@"\n')
    program.chmod(0o755)
    env = environ() | {"HOME": str(folder), "TERM": "xterm"}
    env["PATH"] = f"{program.parent}{os.pathsep}{env['PATH']}"
    script = folder / f"completion.{shell}"
    script.write_text(subprocess.check_output([program, "completion", shell], text=True, env=env))
    (folder / "sim.py").touch()
    return script, env


@pytest.fixture
def in_zsh(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """What becomes of a line when Tab is pressed at its end."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script, env = _place(tmp_path, "zsh")
    shell = pexpect.spawn(
        "zsh", ["-f", "-i"], env=env, cwd=str(tmp_path), encoding="utf-8", dimensions=(24, 200), timeout=_PATIENCE_S
    )
    shell.sendline(_ZSH.format(script=shlex.quote(str(script))))
    shell.expect("ALLSET\r")
    shell.expect("READY> ")

    def run(line: str) -> str:
        shell.send(f"{line}\t\x14")
        shell.expect("<<(.*)>>")
        found = str(shell.match[1])
        shell.send("\x03")
        shell.expect("READY> ")
        return found

    yield run
    shell.close(force=True)


@pytest.fixture
def in_fish(tmp_path: Path) -> Completes:
    """What fish offers for a line, each with its description after a tab."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script, env = _place(tmp_path, "fish")

    def run(line: str) -> list[str]:
        words = f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", words], capture_output=True, text=True, env=env, cwd=tmp_path, check=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def _ended_session() -> str:
    engine = ScriptedEngine(("cpu0", "cpu1"))
    sessions.write_record(sessions.Record(engine.session, ended=engine.session.started))
    return engine.session.spec.name


def test_zsh_completes_commands_options_files_sessions_and_slots(in_zsh: Callable[[str], str]) -> None:
    name = _ended_session()
    assert in_zsh("gmg-tui att") == "gmg-tui attach "
    assert in_zsh("gmg-tui --cpu 2 sw") == "gmg-tui --cpu 2 sweep "
    assert in_zsh("gmg-tui --gp") == "gmg-tui --gpus "
    assert in_zsh("gmg-tui ./si") == "gmg-tui ./sim.py "
    assert in_zsh(f"gmg-tui report {name[:3]}") == f"gmg-tui report {name} "
    assert in_zsh(f"gmg-tui logs {name} ") == f"gmg-tui logs {name} cpu"


def test_fish_completes_commands_options_files_sessions_and_slots(in_fish: Completes) -> None:
    name = _ended_session()
    [attach] = in_fish("gmg-tui att")
    assert attach.startswith("attach\tOpen the screen on a running session, by"), "whole, in spite of its comma"
    assert [one.split("\t")[0] for one in in_fish("gmg-tui --cpu 2 sw")] == ["sweep"]
    assert in_fish("gmg-tui ./si") == ["./sim.py"]
    assert in_fish("gmg-tui --start g") == ["gated"]
    assert in_fish(f"gmg-tui report {name[:3]}") == [name]
    assert in_fish(f"gmg-tui logs {name} ") == ["cpu0", "cpu1"]
