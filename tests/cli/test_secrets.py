"""Values of variables that sound like secrets: masked where they are shown, and in `ps`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.model import Attempt, Details, secrets
from gmg_tui.results.job_columns import as_plain
from gmg_tui.ui.pane.worker_facts import setup_facts
from tests.cli.scripted import COMMAND, WORKER, environ, gmg
from tests.patience import LONG_S

_ENV = {"WANDB_API_KEY": "s3cret", "hf_token": "tok3n", "PLAIN": "value", "EMPTY_KEY": ""}
_MASKED = {"WANDB_API_KEY": "***", "hf_token": "***", "PLAIN": "value", "EMPTY_KEY": ""}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_unmasked", True)


def test_values_are_masked_by_name_and_restored_after_an_edit() -> None:
    assert secrets.mask(_ENV) == _MASKED
    edited = _MASKED | {"PLAIN": "new", "hf_token": "other"}
    assert secrets.unmask(edited, _ENV) == _ENV | {"PLAIN": "new", "hf_token": "other"}


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("DB_PASS", "x", True),
        ("MYSQL_PWD", "x", True),
        ("npm_auth", "x", True),
        ("AUTHORIZATION", "x", True),
        ("STORE", "postgres://me:s3cret@box/runs", True),
        ("HEADERS", "Authorization: Bearer abcdef123456", True),
        ("PASSES", "3", False),
        ("AUTHOR", "me", False),
        ("STORE", "https://box/runs", False),
    ],
)
def test_secrets_are_known_by_name_or_form(name: str, value: str, masked: bool) -> None:
    assert (secrets.mask_value(name, value) == "***") is masked


def test_values_are_masked_on_the_screen_and_in_json() -> None:
    details = Details("cpu0", (), "/", _ENV, (), "", (), extra_env=_ENV)
    texts = str(list(setup_facts(details, None, "")))
    assert ("PLAIN=value" in texts, "s3cret" in texts, "tok3n" in texts) == (True, False, False)
    assert as_plain(Attempt(1, (), env=_ENV))["env"] == _MASKED


@pytest.mark.usefixtures("shown")
def test_values_are_shown_on_request() -> None:
    assert secrets.mask(_ENV) == _ENV


def test_neither_ps_nor_reports_show_secrets() -> None:
    words = [
        "--env",
        "WANDB_API_KEY=s3cret",
        "--env=HF_TOKEN=s3cret",
        "--env",
        "PLAIN=value",
        "--env",
        "DB=x://me:s3cret@box",
        WORKER,
    ]
    for name, lines in (("first", "0"), ("second", "1")):
        run = [*COMMAND, "--cpu", "1", "--headless", "--name", name, *words, "--lines", lines]
        with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ()) as process:
            assert process.stdout.readline()
            arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
            if lines == "0":
                assert "s3cret" not in arguments
                assert "HF_TOKEN=******" in arguments
                assert "PLAIN=value" in arguments
            process.terminate()
            process.communicate(timeout=LONG_S)
    compared = gmg("report", "first", "second", "--json").stdout
    assert "s3cret" not in compared + gmg("report", "first", "second").stdout
    assert json.loads(compared)


def test_ps_shows_no_secret_while_modules_are_imported() -> None:
    program = """
import sys, types
from pathlib import Path
sys.modules["gmg_tui.cli.app"] = types.SimpleNamespace(main=lambda: print(Path("/proc/self/cmdline").read_text()))
from gmg_tui.__main__ import main
main()
"""
    command = [sys.executable, "-c", program, "--env", "A_TOKEN=s3cret", "--env=B_KEY=s3cret", "--env", "C=shown"]
    command += ["--notify", "curl https://box/s3cret", "--notify=curl\ts3cret", "--notify", "bell"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONG_S).stdout
    assert ("s3cret" in shown, "C=shown" in shown, "bell" in shown) == (False, True, True)
