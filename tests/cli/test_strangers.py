"""What another user may have put where a command is run."""

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import aiohttp
import pytest

from tests.cli.scripted import WORKER, ScriptedEngine, environ
from tests.patience import LONG_S

_COMMAND = (sys.executable, "-P", "-m", "gmg_tui")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with modules that are named like others', and leave a file `caught` when they are imported."""
    (folder := tmp_path / "trap").mkdir()
    for name in (*sys.stdlib_module_names, "genesis", "gmg_tui", "msgspec", "sitecustomize", "textual", "torch"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'caught')!r}, 'a').write('{name} ')\n")
    return folder


@pytest.mark.parametrize("words", ["doctor", "gpus", f"--headless --cpu 1 {WORKER} --lines 1", "ls"])
def test_commands_import_nothing_from_the_current_folder(words: str, trap: Path) -> None:
    subprocess.run([*_COMMAND, *words.split()], cwd=trap, env=environ(), capture_output=True, check=False)
    assert not (trap.parent / "caught").exists(), (trap.parent / "caught").read_text()


async def test_the_screen_in_a_browser_imports_nothing_from_the_current_folder(trap: Path) -> None:
    async with ScriptedEngine():
        command = (*_COMMAND, "serve", "--port", "0")
        server = await asyncio.create_subprocess_exec(*command, cwd=trap, env=environ(), stdout=PIPE)
        url = (await asyncio.wait_for(server.stdout.readline(), LONG_S)).decode().strip()
        async with aiohttp.ClientSession() as web, web.ws_connect(f"{url}ws") as page:
            await asyncio.wait_for(page.receive_bytes(), LONG_S)
        server.send_signal(signal.SIGINT)
        await asyncio.wait_for(server.communicate(), LONG_S)
    assert not (trap.parent / "caught").exists(), (trap.parent / "caught").read_text()
