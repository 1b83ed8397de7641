"""Made bottlenecks: what the engine gathers of real processes leads to the right verdict."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.diagnosis.verdicts import judge
from gmg_tui.model import Load, RunSpec, SpeedFacts, WorkerState
from gmg_tui.session.protocol import Action
from gmg_tui.simulation import FOLDER, SCRIPT
from tests.patience import LONG_S, wait_until

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
if what == "threads":
    burn = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(12)]
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
    facts = await _raw_facts(run, slot, holds)
    load = facts.load or Load()
    return structs.replace(facts, load=structs.replace(load, main_delay_pct=0.0, ready_pct=load.main_cpu_pct))


async def _raw_facts(run: Running, slot: str, holds: Callable[[SpeedFacts], object]) -> SpeedFacts:
    await run.until_state(slot, WorkerState.RUNNING)
    async with asyncio.timeout(LONG_S):
        while not holds(facts := await run.client.speed(slot)):
            pass
    return facts


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


async def test_too_many_threads_want_the_cores(tmp_path: Path) -> None:
    async with running(_spec(tmp_path, "threads")) as run:
        many = len(os.sched_getaffinity(0)) * 2.5
        verdict = judge(await _raw_facts(run, "cpu0", lambda facts: facts.load and (facts.load.ready or 0) > many))
        assert verdict.kind == "threads", verdict
        await run.client.end(kill=True)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    roots = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
    root = next((each for each in roots if (each / "cpu.shares").exists() or (each / "cpu.max").exists()), roots[1])
    folder = root / f"gmg-test-{os.getpid()}"
    try:
        folder.mkdir()
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text("20000 100000")
        else:
            (folder / "cpu.cfs_quota_us").write_text("20000")
    except OSError:
        pytest.skip("no cgroup can be made here")
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


async def test_a_quota_of_the_cgroup_is_found(tmp_path: Path, cgroup: Path) -> None:
    async with running(_spec(tmp_path, "few")) as run:
        (cgroup / "cgroup.procs").write_text(str(await run.pid("cpu0")))
        quota = lambda facts: facts.load and (facts.load.throttled_pct or 0) > 50  # noqa: E731
        verdict = judge(await _raw_facts(run, "cpu0", quota))
        assert verdict.kind == "quota", verdict
        assert "with 0.2 cores allowed" in verdict.text
        await run.client.end(kill=True)


async def test_a_hot_gpu_and_one_with_others_are_told_apart_from_one_that_just_works() -> None:
    spec = spec_for("-B", "4096", cpu=None, script=str(SCRIPT), simulate=3)
    async with running(spec) as run:
        for slot in ("gpu0", "gpu1", "gpu2"):
            await run.until_state(slot, WorkerState.RUNNING)
        other = await asyncio.create_subprocess_exec("sleep", str(LONG_S))
        use = json.dumps({"index": 0, "mib": 3000.0, "util_pct": 50.0})
        Path(spec.folder, FOLDER, str(other.pid)).write_text(use)
        try:
            shared = judge(await _raw_facts(run, "gpu0", lambda facts: facts.sharers))
            hot = judge(await _raw_facts(run, "gpu2", lambda facts: facts.sample and facts.sample.throttle))
            cool = judge(await _raw_facts(run, "gpu1", lambda facts: facts.load))
        finally:
            other.kill()
            await other.wait()
        assert (shared.kind, hot.kind, cool.kind) == ("shared", "throttled", "unknown")
        assert "throttled by heat: thermal, 1,872 of 2,100 MHz" in hot.text
        assert f"sleep (PID {other.pid}, 2.9 GiB)" in shared.text
        await run.client.end(kill=True)


async def test_the_verdict_stays_with_the_attempt(tmp_path: Path) -> None:
    async with running(_spec(tmp_path, "spin")) as run:
        await _facts(run, "cpu0", lambda facts: facts.shares)
        await run.client.act(Action.STOP, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        verdict = run.worker("cpu0").newest.verdict
        assert verdict.kind == "script"
        assert judge(await run.client.speed("cpu0")).evidence[0] == f"its last attempt: {verdict.text}"
