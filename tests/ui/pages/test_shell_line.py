"""The command line of a worker, pasted into a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.model import Details, WorkerState
from gmg_tui.ui.pages.worker_facts import SESSION_ID, shell_line
from tests.engine.harness import FAKE, running, spec_for


def _run_in_sh(line: str, facts: Path) -> dict[str, object]:
    facts.unlink(missing_ok=True)
    # Without `env`, the child would have what libraries have put into C's environment (readline: COLUMNS).
    shell = {**os.environ, "PWD": "/"}
    subprocess.run(["sh", "-c", line], check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/", env=shell)
    received = json.loads(facts.read_text())
    env = {
        name: value
        for name, value in received["env"].items()
        if name not in {"PWD", "OLDPWD", "SHLVL", "_", SESSION_ID}
    }
    return {"env": env, "argv": received["argv"], "cwd": received["cwd"]}


async def test_the_copied_command_starts_the_same_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, folder, python = tmp_path / "facts.json", tmp_path / "a folder; it's $HOME", tmp_path / "python"
    folder.mkdir()
    python.symlink_to(sys.executable)
    hard = 'it\'s "$HOME" `id` \\ ; & | * ~ ! # é\nnext line'
    monkeypatch.setenv("SLURM_PROCID", "3")
    args = ("-B", "64", "--seed", hard, "--lines", "1", "--print-env", str(facts))
    spec = spec_for(*args, cwd=str(folder), python=str(python), env={"HARD": hard, "EMPTY": "", "LONG": "x" * 9000})
    async with running(spec) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        received = json.loads(facts.read_text())
        line = shell_line(await run.client.details("cpu0"))
        assert "-u SLURM_PROCID" in line
        again = _run_in_sh(line, facts)
    assert received["env"].pop(SESSION_ID)
    # Only the attempt's own process counts for the engine, and writes its stacks for it.
    for name in ("PWD", "OLDPWD", "SHLVL", "_", "GMG_PROBE_DIR", "GMG_STACK_FILE", "GMG_STACK_SIGNAL"):
        received["env"].pop(name, None)
    assert again == {"env": received["env"], "argv": received["argv"], "cwd": received["cwd"]}
    assert received["argv"][0] == FAKE
    assert os.environ["SLURM_PROCID"] == "3"


def test_before_the_first_attempt_there_is_no_command() -> None:
    none = Details("gpu0", (), "/", {}, (), "", ())
    assert shell_line(none) == ""
