"""Completion in real shells: commands, options, sessions and topics, and files as without it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import environ
from tests.patience import LONG_S

LINES: tuple[tuple[str, list[str]], ...] = (
    ("sw", ["sweep", "swing.py"]),
    ("run swi", ["swing.py"]),
    ("--gpu", ["--gpus"]),
    ("--theme=l", ["light"]),
    ("swing.py --gpu", []),
    ("swing.py folder/o", ["folder/other.py"]),
    ("sweep jobs", ["jobs.toml"]),
    ("attach sim", ["sim-1", "sim-2"]),
    ("sweep --resume sim-2", ["sim-2"]),
    ("guide t", ["troubleshooting", "tuning"]),
    ("--summary ./jo", ["./jobs.toml"]),
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("swing.py", "jobs.toml", "folder/other.py", "two words.py"):
        (tmp_path / name).touch()
    for name in ("sim-1", "sim-2"):
        (sessions.sessions_folder() / name).mkdir(parents=True)
    program = tmp_path / "bin" / "gmg-tui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gmg_tui "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.chdir(tmp_path)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_words() -> None:
    asks = "".join(f"complete -C 'gmg-tui {line}'; echo ===;" for line, _ in LINES)
    program = f"_GMG_TUI_COMPLETE=fish_source gmg-tui | source; {asks}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, check=True, env=environ()
    )
    answers = [answer.splitlines() for answer in done.stdout.split("===\n")]
    for (line, words), answer in zip(LINES, answers, strict=False):
        found = [item.partition("\t")[0].rpartition("=")[2] for item in answer]
        assert sorted(found) == sorted(words), line


def test_bash_completes_words() -> None:
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile"], env={**environ(), "PS1": "> "}, timeout=LONG_S, encoding="utf-8"
    )
    shell.sendline("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'")
    shell.sendline('eval "$(_GMG_TUI_COMPLETE=bash_source gmg-tui)"; echo re""ady')
    shell.expect("ready\r\n")
    for line, words in LINES:
        shell.send(f"gmg-tui {line}\x1b*\x01echo :\x05:\r")  # alt+*: insert all completions
        shell.expect(r"\r\n:gmg-tui (.*?) ?:\r\n")
        text = str(shell.match.group(1)) if shell.match else ""
        assert sorted(text.replace("=", " ").split()[-len(words) :]) == sorted(words) if words else text == line, line
    shell.send("gmg-tui tw\t\x01echo :\x05:\r")
    shell.expect_exact("\r\n:gmg-tui two words.py :\r\n")
    shell.close()
