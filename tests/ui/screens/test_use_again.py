"""Attempts selected in a worker's details, whose settings are used again, and the command line to be pasted."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gmg_tui.model import Details, Settings, WorkerState
from gmg_tui.ui.screens.details.command import LEFT_OUT, CommandScreen, shell_line
from gmg_tui.ui.screens.edit.screen import EditScreen
from tests.engine.harness import FAKE, running, spec_for
from tests.ui import play
from tests.ui.screens import stage
from tests.ui.screens.stage import asked, click, press
from tests.ui.screens.test_edit_settings import staged, written

SMALL, WIDE = (80, 24), (160, 48)


@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["80x24", "160x48"])
async def test_the_settings_of_the_selected_attempt_are_used_again(size: tuple[int, int]) -> None:
    async with staged("enter", "2", size=size) as pilot:
        await play.sees(pilot, "▸5", "u use again")
        await press(pilot, "down", "j")
        await play.sees(pilot, "▸3")
        assert "▸5" not in play.shown(pilot.app)
        await press(pilot, "u")
        assert written(pilot) == ("-B 2048", "A={i}")
        await play.sees(pilot, "gpu0 will restart with these settings. From attempt 3: stopped.")
        await press(pilot, "alt+up", "enter")
        await play.sees(pilot, "[2 attempts]", "▸3")
        assert isinstance(pilot.app, play.FakedApp)
        assert asked(pilot.app.engine) == [("edit", ("gpu0",), ("-B", "4096"), {"A": "{i}"})]


async def test_the_selected_attempt_is_scrolled_into_view_and_stays_while_others_follow() -> None:
    async with staged("enter", "2", size=(80, 14)) as pilot:
        assert "▸5" not in play.shown(pilot.app)
        await press(pilot, "down", "up")
        await play.sees(pilot, "▸5")
        await press(pilot, *["down"] * 9)
        await play.sees(pilot, "▸1")
        await press(pilot, *["up"] * 30)
        await play.sees(pilot, "Before and after")


async def test_elsewhere_u_shows_the_attempts_first() -> None:
    async with staged("enter", "u") as pilot:
        await play.sees(pilot, "[2 attempts]", "▸5")
        await press(pilot, "3")
        assert "use again" not in play.screen(pilot.app)[-1]


async def test_without_an_attempt_there_is_nothing_to_use_or_to_show() -> None:
    engine = stage.engine()
    engine.details_of["gpu0"] = msgspec.structs.replace(stage.details(), attempts=(), command=())
    app = stage.app(engine)
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "enter", "2", "down", "u", "c")
        await play.sees(pilot, "None has started yet.")
        assert not isinstance(app.screen, EditScreen | CommandScreen)


@pytest.mark.parametrize("size", [SMALL, WIDE], ids=["80x24", "160x48"])
async def test_the_command_is_shown_and_copied(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    app = stage.app()
    async with app.run_test(size=size) as pilot:
        await press(pilot, "enter", "3", "c")
        await play.sees(pilot, "The command of gpu0", "cd /home/ada/sim && env -u DISPLAY", "y copy")
        sent: list[str] = []
        driver = app._driver
        assert driver is not None
        monkeypatch.setattr(driver, "write", sent.append)
        await press(pilot, "y")
        await play.sees(pilot, "Copied, if the terminal takes it (OSC 52).")
        (copied,) = [text for text in sent if text.startswith("\x1b]52;c;")]
        text = base64.b64decode(copied.removeprefix("\x1b]52;c;").removesuffix("\a")).decode()
        assert text == shell_line(stage.details())
        await click(pilot, "esc back")
        await play.sees(pilot, "[3 setup]")


def _run_in_sh(line: str, facts: Path) -> dict[str, object]:
    facts.unlink(missing_ok=True)
    # Without `env`, the child would have what libraries have put into C's environment (readline: COLUMNS).
    shell = {**os.environ, "PWD": "/"}
    subprocess.run(["sh", "-c", line], check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/", env=shell)
    said = json.loads(facts.read_text())
    env = {name: value for name, value in said["env"].items() if name not in {"PWD", "OLDPWD", "SHLVL", "_", LEFT_OUT}}
    return {"env": env, "argv": said["argv"], "cwd": said["cwd"]}


@pytest.mark.parametrize("interpreter", ["python", "lr=1/python"])
async def test_the_command_starts_what_the_worker_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    facts, folder, python = tmp_path / "facts.json", tmp_path / "a folder; it's $HOME", tmp_path / interpreter
    folder.mkdir()
    python.parent.mkdir(exist_ok=True)
    python.symlink_to(sys.executable)
    hard = 'it\'s "$HOME" `id` \\ ; & | * ~ ! # é\nnext line'
    monkeypatch.setenv("SLURM_PROCID", "3")
    args = ("-B", "64", "--seed", hard, "--lines", "1", "--print-env", str(facts))
    spec = spec_for(*args, cwd=str(folder), python=str(python), env={"HARD": hard, "EMPTY": "", "LONG": "x" * 9000})
    async with running(spec) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        told = json.loads(facts.read_text())
        line = shell_line(await run.client.details("cpu0"))
        assert "-u SLURM_PROCID" in line
        again = _run_in_sh(line, facts)
    assert told["env"].pop(LEFT_OUT)
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):
        told["env"].pop(name, None)
    assert again == {"env": told["env"], "argv": told["argv"], "cwd": told["cwd"]}
    assert told["argv"][0] == FAKE
    assert os.environ["SLURM_PROCID"] == "3"


def test_before_the_first_attempt_there_is_no_command() -> None:
    none = Details("gpu0", (), "/", {}, (), "", (), settings=(Settings(),))
    assert shell_line(none) == ""
