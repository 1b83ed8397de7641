"""Made bottlenecks: what the engine gathers of real processes leads to the right verdict."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.diagnosis.verdicts import judge
from gmg_tui.model import Load, RunSpec, SpeedFacts, WorkerState
from tests.patience import LONG_S

from .harness import Running, running, spec_for

_GENESIS = {
    "genesis/__init__.py": "from genesis.engine.scene import Scene\n",
    "genesis/engine/__init__.py": "",
    "genesis/vis/__init__.py": "",
    "genesis/vis/camera.py": "import time\nclass Camera:\n    def render(self): time.sleep(0.03)\n",
    "rsl_rl/__init__.py": "",
    "rsl_rl/algorithms/__init__.py": "",
    "rsl_rl/algorithms/ppo.py": "class PPO:\n    def update(self, work): work()\n",
    "genesis/engine/scene.py": """
import time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
class Scene:
    n_envs = 4
    def step(self): spin(0.002)
""",
    "script.py": """
import os, subprocess, sys, threading, time
from genesis.engine.scene import Scene, spin
from genesis.vis.camera import Camera
from rsl_rl.algorithms.ppo import PPO
def compute_reward():
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
what, scene, count = sys.argv[1], Scene(), 0
while True:
    scene.step()
    count += 1
    if what == "spin": compute_reward()
    if what == "sleep": time.sleep(0.02)
    if what == "render": Camera().render()
    if what == "learn" and count % 24 == 0: PPO().update(lambda: spin(0.072))
    if what == "disk": open(sys.argv[2], "rb").read(1)
""",
}


def _spec(folder: Path, *args: str) -> RunSpec:
    for name, text in _GENESIS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return spec_for(*args, script=str(folder / "script.py"), cwd=str(folder))


async def _facts(run: Running, slot: str, holds: Callable[[SpeedFacts], object]) -> SpeedFacts:
    """The facts about a worker, once they are known; the load of others on this machine does not count."""
    await run.until_state(slot, WorkerState.RUNNING)
    async with asyncio.timeout(LONG_S):
        while not holds(facts := await run.client.speed(slot)):
            pass
    load = facts.load or Load()
    return structs.replace(facts, load=structs.replace(load, main_delay_pct=0.0, ready_pct=load.main_cpu_pct))


@pytest.mark.parametrize(
    ("what", "kind"),
    [("spin", "script"), ("sleep", "script"), ("few", "simulator"), ("render", "rendering"), ("learn", "learning")],
)
async def test_a_made_bottleneck_has_its_verdict(tmp_path: Path, what: str, kind: str) -> None:
    async with running(_spec(tmp_path, what)) as run:
        facts = await _facts(run, "cpu0", lambda facts: facts.shares is not None and facts.load is not None)
        verdict = judge(facts)
        assert verdict.kind == kind, (verdict, facts)
        if what == "spin":
            spot = await run.client.hot_spot("cpu0")
            assert spot is not None
            assert spot.function == "compute_reward"
        if what == "sleep":
            assert "which sleeps" in verdict.text
        await run.client.end(kill=True)


async def test_a_blocked_read_is_a_wait_for_io(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow")
    holder = os.open(tmp_path / "slow", os.O_RDWR)
    try:
        async with running(_spec(tmp_path, "disk", str(tmp_path / "slow"))) as run:
            verdict = judge(await _facts(run, "cpu0", lambda facts: facts.load and facts.load.waits_pct))
            assert verdict.kind == "io", verdict
            assert verdict.text == f"waiting for I/O: 100 % of the time in {tmp_path / 'slow'}"
            await run.client.end(kill=True)
    finally:
        os.close(holder)
