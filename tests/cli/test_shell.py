"""Completion in a real bash, the manual page, and what a bug report needs."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripted import ScriptedEngine, environ


def _gmg(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ() | more, check=True)


@pytest.fixture
def complete(tmp_path: Path) -> object:
    """What bash has in COMPREPLY for a line whose last word is begun; `<files>` where it takes its own for files."""
    script = tmp_path / "completion.bash"
    script.write_text(_gmg("completion", "bash").stdout)
    program = tmp_path / "bin" / "gmg-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gmg_tui "$@"\n')
    program.chmod(0o755)

    def run(line: str) -> list[str]:
        words = line.split(" ")
        program_text = f"""
            source {shlex.quote(str(script))}
            compopt() {{ echo '<files>'; }}
            COMP_WORDS=({" ".join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1}
            _gmg_tui_completion {shlex.quote(str(program))}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "--norc", "-c", program_text],
            capture_output=True,
            text=True,
            env=environ(),
            check=True,
            cwd=tmp_path,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return run


def test_bash_completes_commands_options_and_a_scripts_path(complete) -> None:  # type: ignore[no-untyped-def]
    assert complete("gmg-tui a") == ["attach"]
    assert complete("gmg-tui --cpu 2 sw") == ["sweep"]
    assert complete("gmg-tui --gp") == ["--gpus"]
    assert complete("gmg-tui ./si") == ["<files>"]
    assert complete("gmg-tui sim.py --gp") == ["<files>"]
    assert complete("gmg-tui --start g") == ["gated"]
    assert complete("gmg-tui completion z") == ["zsh"]


def test_bash_completes_sessions_and_slots(complete) -> None:  # type: ignore[no-untyped-def]
    assert complete("gmg-tui attach ") == []
    engine = ScriptedEngine(("cpu0", "cpu1"))
    name = engine.session.spec.name
    _write(engine)
    assert name in complete("gmg-tui report ")
    assert complete("gmg-tui logs cp") == ["cpu0", "cpu1"]
    assert complete(f"gmg-tui logs {name} ") == ["cpu0", "cpu1"]
    (engine.folder / "session.json").write_text("{")
    assert complete("gmg-tui report ") == []


def _write(engine: ScriptedEngine) -> None:
    from gmg_tui import session as sessions

    sessions.write_record(sessions.Record(engine.session, ended=engine.session.started))


def test_bash_completes_the_presets_of_the_file(complete, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "light.toml").write_text('[preset.quick]\nargs = ""\n[preset.long]\nargs = ""\n')
    assert complete("gmg-tui sweep light.toml --preset q") == ["quick"]
    (tmp_path / "light.toml").write_text("[")
    assert complete("gmg-tui sweep light.toml --preset q") == ["<files>"]


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_the_manual_page_has_every_command_and_man_has_no_warning(tmp_path: Path) -> None:
    page = tmp_path / "gmg-tui.1"
    page.write_text(_gmg("man").stdout)
    done = subprocess.run(["man", "-l", "--warnings", page], capture_output=True, text=True, env=environ(), check=True)
    assert done.stderr == ""
    for word in ("attach", "sweep", "--sigint-wait", "completion"):
        assert word in done.stdout


def test_the_versions_are_those_of_the_workers_environment(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    for package in ("genesis_world-1.4.5", "torch-2.9.0"):
        (tmp_path / "lib/python3.11/site-packages" / f"{package}.dist-info").mkdir(parents=True)
    done = _gmg("--version", "--json", VIRTUAL_ENV=str(tmp_path), SLURM_JOB_ID="4711")
    said = json.loads(done.stdout)
    assert said["workers"] == {"python": str(python), "genesis": "1.4.5", "torch": "2.9.0"}
    assert said["slurm_job"] == "4711"
    assert said["textual"]
    assert said["click"]
    assert _gmg("--version").stdout == f"gmg-tui {said['gmg_tui']}\n"
