"""`gpus`, `ls` and `doctor` over several machines: by real launchers, `ssh` with a client that runs here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session as sessions
from gmg_tui.commands.doctor.facts import Examined
from gmg_tui.commands.doctor.finding import Verdict, ok, warn
from gmg_tui.commands.doctor.nodes import compare, together
from gmg_tui.commands.over_nodes import named
from tests.cli.scripted import ScriptedEngine, environ
from tests.nvml_sim import Sim

_CLIENT = """#!/bin/sh
for last; do :; done
for word; do [ "$word" = "$last" ] || host=$word; done
case $host in
    gone) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255 ;;
    old) echo "Welcome to old"; echo "Usage: gmg-tui [OPTIONS]"; echo "gmg-tui: no such option: --facts" >&2; exit 2 ;;
    talks) echo "Welcome to [talks]"; echo "[not JSON" ;;
    else) export GS_CACHE_FILE_PATH=/tmp/elsewhere ;;
esac
exec sh -c "$last"
"""
"""In the place of OpenSSH's: its last word is what the host's shell is to run, the one before it the host."""


@pytest.fixture
def ssh(tmp_path: Path) -> dict[str, str]:
    """Variables with which `--nodes ssh:…` comes to this machine."""
    client = tmp_path / "client"
    client.write_text(_CLIENT)
    client.chmod(0o755)
    return {**environ(), "GMG_SSH": str(client)}


def _gmg(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gmg_tui", *words], capture_output=True, text=True, env=env, check=False
    )


def _rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("where", ["local:2", "ssh:n1,me@n2"])
def test_gpus_of_all_nodes(tmp_path: Path, nvml_library: Path, ssh: dict[str, str], where: str) -> None:
    env = ssh | Sim(tmp_path / "sim", nvml_library, count=2).env()
    here = _rows(_gmg("gpus", "--json", env=env))
    done = _gmg("gpus", "--nodes", where, "--json", env=env)
    assert done.returncode == 0
    rows = _rows(done)
    assert [row.pop("node") for row in rows] == ["n1", "n1", "n2", "n2"]
    assert [list(row) for row in rows] == [list(row) for row in here * 2], "what one machine says, and no more"
    lines = _gmg("gpus", "--nodes", where, env=env).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["n1", "0"], ["n1", "1"], ["n2", "0"], ["n2", "1"]]


def test_a_node_that_cannot_be_asked_is_said_beside_the_others(
    tmp_path: Path, nvml_library: Path, ssh: dict[str, str]
) -> None:
    env = ssh | Sim(tmp_path / "sim", nvml_library, count=1).env()
    done = _gmg("gpus", "--nodes", "ssh:n1,gone,talks", env=env)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["n1", "talks"]
    assert done.stderr == "gone: ssh: connect to host gone port 22: No route to host\n"
    rows = _rows(_gmg("gpus", "--nodes", "ssh:gone", "--json", env=env))
    assert rows == [{"node": "gone", "error": "ssh: connect to host gone port 22: No route to host"}]


def test_without_a_driver_each_node_says_so(ssh: dict[str, str]) -> None:
    done = _gmg("gpus", "--nodes", "local:2", env=ssh | {"GMG_NVML": "/nowhere.so"})
    assert done.returncode == 1
    assert not done.stdout
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["n1", "n2"]


@pytest.mark.parametrize("command", ["gpus", "ls", "doctor"])
def test_nodes_that_are_none_are_refused(ssh: dict[str, str], command: str) -> None:
    done = _gmg(command, "--nodes", "nowhere", env=ssh)
    assert done.returncode == 2
    assert "--nodes nowhere: give slurm, ray, ssh:HOST" in done.stderr


def test_sessions_of_nodes_that_share_a_folder_are_listed_once(ssh: dict[str, str]) -> None:
    engine = ScriptedEngine(("cpu0", "cpu1"))
    sessions.write_record(sessions.Record(engine.session, engine.briefs))
    env = ssh | {name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR") if name in os.environ}
    rows = _rows(_gmg("ls", "--nodes", "ssh:a,b,c", "--json", env=env))
    assert [(row["node"], row["name"]) for row in rows] == [("a", "sim-1"), ("b", "sim-1"), ("c", "sim-1")]
    lines = _gmg("ls", "--nodes", "ssh:a,b,c", env=env).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].split()[:3] == ["node", "name", "state"]
    assert lines[1].startswith("all 3 nodes  sim-1")
    lines = _gmg("ls", "--nodes", "ssh:a,gone", env=env).stdout.splitlines()
    assert lines[1].startswith("a     sim-1")


def test_doctor_says_what_differs_and_who_could_not_be_asked(ssh: dict[str, str]) -> None:
    done = _gmg("doctor", "--nodes", "ssh:a,else,gone,old", env=ssh)
    assert done.returncode == 1
    found = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["ok", "Slurm          a, else: no job"] in found
    text = done.stdout
    assert "FAIL  node           gone: ssh: connect to host gone port 22: No route to host; see that" in text
    assert "FAIL  node           old: no such option: --facts; see that" in text
    assert "warn  mesh cache     differs: a: " in text
    assert "; else: /tmp/elsewhere" in text
    assert "ok    Python         the same on a, else: " in text
    assert "ok    clock          at most " in text
    assert "$TERM" not in text, "no node has this screen"
    rows = _rows(_gmg("doctor", "--nodes", "ssh:a,else", "--json", env=ssh))
    assert {row["node"] for row in rows} == {"a", "else", None}
    (differs,) = [row for row in rows if row["node"] is None and row["check"] == "mesh cache"]
    assert differs["verdict"] == "warn"


def test_versions_and_clocks_are_compared() -> None:
    def one(genesis: str, ahead_s: float) -> Examined:
        return Examined((), {"Genesis": genesis}, 1000.0 + ahead_s)

    examined = {"n1": one("1.4.5", 0.1), "n2": one("1.4.4", 63.0), "n3": one("1.4.5", -4.0)}
    found = {finding.check: finding for finding in compare(examined, dict.fromkeys(examined, 1000.0))}
    assert found["Genesis"].verdict is Verdict.WARN
    assert found["Genesis"].found == "differs: n1, n3: 1.4.5; n2: 1.4.4"
    assert found["Genesis"].advice == "install the same version on all: others are refused"
    assert found["clock"].found == "against this machine's n2 is 1:03 ahead, n3 is 4 s behind"
    alike = {"n1": one("1.4.5", 0.1), "n2": one("1.4.5", 0.0)}
    assert all(finding.verdict is Verdict.OK for finding in compare(alike, dict.fromkeys(alike, 1000.0)))


def test_findings_are_said_once_with_their_nodes() -> None:
    good, full = ok("sessions", "/home/me, 64 GiB free"), warn("sessions", "/home/me, 2 MiB free", "remove some")
    found = list(together({"n1": (good,), "n2": (full,), "n3": (good,)}, 3))
    assert [one.found for one in found] == ["n1, n3: /home/me, 64 GiB free", "n2: /home/me, 2 MiB free"]
    assert named([f"n{number}" for number in range(9)], 20) == "n0, n1, n2, n3 and 5 more"
