"""A disk that takes no byte and refuses none: every write to it waits, as on a network file system without its server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import running, spec_for

from .patience import eventually

STEPS = ("--plain", "--phase-s", "0", "--rate", "200")
SILENT = "the disk does not answer"


def _call(*command: str) -> None:
    """Run a program that needs root and a kernel that lets it; skip the test where it is not let."""
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        pytest.skip(f"no {error.filename} here")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{command[0]}: {error.stderr.strip()}")


class Disk:
    """A file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Whoever writes to it meanwhile waits (`FIFREEZE`)."""
        _call("fsfreeze", "--freeze", str(self.folder))
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk with the state folder on it."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(b"")
    with image.open("r+b") as file:
        file.truncate(32 << 20)
    folder.mkdir()
    _call("mkfs.ext4", "-q", str(image))
    _call("mount", "-o", "loop", str(image), str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _steps(output: bytes) -> list[list[int]]:
    """The numbers that each attempt has printed."""
    attempts = output.split("──── gmg-tui".encode())
    return [[int(number) for number in re.findall(rb"^step (\d+)$", one, re.MULTILINE)] for one in attempts]


@pytest.mark.slow
async def test_a_disk_that_does_not_answer_holds_up_neither_workers_nor_people(disk: Disk) -> None:
    async with running(spec_for(*STEPS, "--lines", "0")) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        with disk.frozen():
            silent = await run.until(lambda s: SILENT in " ".join(s.workers[0].warnings))
            await run.until(lambda s: s.workers[0].log_lines > silent.workers[0].log_lines + 100)
            await run.client.act(Action.RESTART, "cpu0")
            await run.until(lambda s: s.workers[0].attempt == 2 and s.workers[0].state is WorkerState.RUNNING)
            await run.until(lambda s: SILENT in " ".join(s.notes))
        await run.until(lambda s: not s.workers[0].warnings and not s.notes)
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        first, second = _steps(run.output("cpu0"))
        assert first == list(range(len(first)))
        assert second == list(range(len(second)))
        assert stopped.log_lines >= len(first) + len(second) > 300


@pytest.mark.slow
async def test_sigterm_ends_an_engine_though_the_kernel_does_not_let_go_of_its_worker(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes to a disk that does not answer cannot be killed. The engine's own disk is another one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    script = tmp_path / "writes.py"
    script.write_text(
        "import os, time\nfrom pathlib import Path\n"
        f"while not Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.05)\n"
        f"os.open({str(disk.folder / 'x')!r}, os.O_CREAT | os.O_WRONLY)\n"
    )
    async with running(spec_for(script=str(script), sigint_wait_s=0.2, sigterm_wait_s=0.2)) as run:
        worker = await run.until_state("cpu0", WorkerState.STARTING)
        with disk.frozen():
            (tmp_path / "go").touch()
            await eventually(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_DISK_SLEEP)
            run.process.terminate()
            async with asyncio.timeout(60):
                assert await run.process.wait() == 0
