"""A user's own torchrun: the real one, with gloo on the CPU, and one that sees all cards of the simulated driver."""

import json
import socket
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
from msgspec import structs

from gmg_tui.engine.attempts import local_host
from gmg_tui.model import RestartMode, RunSpec, WorkerState
from gmg_tui.scripts import torchrun
from gmg_tui.session.protocol import Action
from tests.nvml_sim import Sim
from tests.patience import eventually
from tests.workers import texts

from .harness import program, running, spec_for, sweep_for

pytestmark = pytest.mark.timeout(300)

TRAIN = """
import os, signal, sys, time
from pathlib import Path
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
if "deaf" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(sys.argv[1], str(rank)).write_text(str(os.getpid()))
for step in range(10_000):
    time.sleep(0.1)
    print(f"Running at {100 * (rank + 1)}.00 FPS (1.00 FPS per env, 100 envs).", flush=True)
    if rank == 1 and Path(sys.argv[1], "die").exists():
        raise ValueError("bad luck")
"""


def _torchrun(tmp_path: Path, *more: str, **settings: Any) -> RunSpec:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    words = ("--standalone", "--nproc_per_node", "2", "--tee", "3", str(script), str(tmp_path), *more)
    settings = {"sigint_wait_s": 40.0, "restart": RestartMode.NEVER, **settings}
    return spec_for(*words, script="torch.distributed.run", module=True, **settings)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _ranks(tmp_path: Path) -> list[psutil.Process]:
    return [psutil.Process(int((tmp_path / str(rank)).read_text())) for rank in (0, 1)]


@pytest.mark.slow
async def test_one_slot_is_enough_and_a_failure_has_the_ranks_exception(tmp_path: Path) -> None:
    async with running(_torchrun(tmp_path, cpu=3)) as run:
        assert [worker.slot for worker in run.snapshot.workers] == ["cpu0"]
        await run.until(lambda s: s.workers[0].fps is not None)
        assert any("gmg-tui --ddp TRAIN.py" in note for note in texts(run.snapshot.alerts))
        (tmp_path / "die").touch()
        await run.until(lambda s: s.workers[0].state is WorkerState.FAILED)
        assert run.snapshot.workers[0].reason == "ValueError: bad luck"


@pytest.mark.slow
async def test_a_stop_goes_to_torchrun_which_ends_its_ranks(tmp_path: Path) -> None:
    async with running(_torchrun(tmp_path, cpu=1)) as run:
        await run.until(lambda s: s.workers[0].state is WorkerState.RUNNING)
        await eventually(lambda: (tmp_path / "1").exists())
        ranks = _ranks(tmp_path)
        await run.client.act(Action.STOP, "cpu0")
        await run.until(lambda s: s.workers[0].state is WorkerState.STOPPED)
        await eventually(lambda: not any(map(_lives, ranks)))


async def test_torchrun_sees_all_cards_and_is_controlled_from_every_slot(sim: Sim, tmp_path: Path) -> None:
    stand_in = tmp_path / "torchrun"
    stand_in.write_text(
        "import json, os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).write_text(json.dumps(os.environ['CUDA_VISIBLE_DEVICES']))\n"
        "time.sleep(600)\n"
    )
    report = tmp_path / "report"
    async with running(spec_for(str(report), cpu=None, script=str(stand_in)), sim.env()) as run:
        await eventually(lambda: report.exists() and report.read_text())
        slots = [worker.slot for worker in run.snapshot.workers]
        assert json.loads(report.read_text()).split(",") == [slot.removeprefix("gpu") for slot in slots]
        other = run.worker(slots[1])
        assert other.reason == "used by gpu0's worker"
        await run.client.act(Action.STOP, slots[-1])
        await run.until(lambda s: s.ended)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.STOPPED}


async def test_torchrun_as_a_job_has_time_to_end_its_ranks(tmp_path: Path) -> None:
    stand_in, report = tmp_path / "torchrun", tmp_path / "report"
    stand_in.write_text(
        "import pathlib, signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(3)\n"
        "    pathlib.Path(sys.argv[1]).write_text('ended')\n"
        "    sys.exit(1)\n"
        "signal.signal(signal.SIGINT, end)\n"
        "pathlib.Path(sys.argv[1]).write_text('began')\n"
        "time.sleep(600)\n"
    )
    spec = sweep_for([{}], program(str(report), script=str(stand_in)), cpu=1, sigint_wait_s=0.5, sigterm_wait_s=0.5)
    async with running(spec) as run:
        await eventually(lambda: report.exists() and report.read_text() == "began")
        await run.client.act(Action.STOP, "cpu0")
        await run.until_done()
    assert report.read_text() == "ended"


@pytest.mark.parametrize(
    ("script", "module", "expected"),
    [
        ("torch.distributed.run", True, True),
        ("/opt/venv/bin/torchrun", False, True),
        ("train.py", False, False),
        ("torchrun", True, False),
    ],
)
def test_torchrun_is_recognised_by_its_command_line(script: str, module: bool, expected: bool) -> None:
    assert torchrun.is_torchrun(script, module=module) is expected


def test_no_other_user_is_shown_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lists the ports that are listened on could take it before rank 0 does."""
    monkeypatch.setattr(socket.socket, "listen", None)
    assert torchrun.free_port()


async def test_ranks_wait_for_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user can take all for a moment."""
    monkeypatch.setattr(local_host, "_PORT_CHECK_INTERVAL_S", 0.0)
    monkeypatch.setattr(torchrun, "free_port", MagicMock(side_effect=[None, None, 29500]))
    address = await local_host.LocalHost.rendezvous_address(MagicMock(), ("cpu0", "cpu1"))
    assert address == (torchrun.LOOPBACK, 29500)


def test_a_stopping_engine_gives_torchrun_jobs_time_to_end() -> None:
    spec = sweep_for([{}], program(script="/venv/bin/torchrun"), cpu=1, sigint_wait_s=15.0, sigterm_wait_s=10.0)
    assert torchrun.stop_timeout_s(spec) == torchrun.GRACE_S + 10.0
    assert torchrun.stop_timeout_s(structs.replace(spec, sweep=None, script="train.py")) == 25.0
