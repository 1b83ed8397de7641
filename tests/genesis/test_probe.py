"""What the probe counts inside the real Genesis is what the script counts itself."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from gmg_tui.model import Phase, RestartMode, Shares, Snapshot, StartMode, Worker, WorkerState
from gmg_tui.session.protocol import Action
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.genesis, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("light")]

_PACED, _TRAINING = (str(Path(__file__).with_name(name)) for name in ("paced.py", "training.py"))
_BEFORE_MESHES = (Phase.NONE, Phase.IMPORTING, Phase.INITIALISING)


def _check(worker: Worker, file: Path) -> None:
    """The worker's rate is that of the script's own count, of whole periods over windows of several lengths."""
    periods = [(float(steps), float(end)) for steps, end, *_ in map(str.split, file.read_text().splitlines())]
    last, ended = periods[-1]
    rates: list[float] = []
    for done, end in periods:  # script and engine do not see exactly the same seconds
        for window_s in (8.0, 9.0, 10.0, 11.0, 12.5, 14.0) if end > ended - 4 else ():
            first, begin = next((each for each in reversed(periods) if end - each[1] >= window_s), periods[0])
            rates.append((done - first) / (end - begin))
    assert worker.newest.n_envs == 8
    assert worker.fps.counted == "probe"
    assert worker.fps.env_steps == pytest.approx(last - 8, abs=24 * 8), "the first step begins the count"
    assert worker.fps.settled is not None
    print(f"{file.name}: {worker.fps.settled:.2f} by the probe, {min(rates):.2f} to {max(rates):.2f} by the script")
    assert 0.99 * min(rates) < worker.fps.settled < 1.01 * max(rates), (worker.fps, rates)


def _check_shares(shares: Shares | None, asked: float, file: Path) -> None:
    """The shares of stepping and learning are those of the script's own timers, within 5 points."""
    periods = [tuple(map(float, line.split()[1:])) for line in file.read_text().splitlines()]
    ends = [each for each in periods if asked - 4 < each[0] < asked]
    pairs = [(end, next(each for each in reversed(periods) if end[0] - each[0] >= 10)) for end in ends]
    for position, share in ((1, shares.simulator), (2, shares.learning)):
        own = [100 * (end[position] - begin[position]) / (end[0] - begin[0]) for end, begin in pairs]
        print(f"{share:.1f} % by the probe, {min(own):.1f} to {max(own):.1f} % by the script")
        assert min(own) - 5 < share < max(own) + 5


async def test_the_rate_is_steps_by_wall_time_whatever_is_printed(tmp_path: Path) -> None:
    loops = ("late", "silent")
    script = tmp_path / "one_of_two.py"
    script.write_text(f"import runpy, sys; sys.argv[2] = {loops}[int(sys.argv[2])]; runpy.run_path({_PACED!r})")
    async with running(spec_for(str(tmp_path), "{i}", cpu=2, script=str(script))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended, timeout_s=840)
    for worker, loop in zip(snapshot.workers, loops, strict=True):
        assert worker.state is WorkerState.FINISHED, worker.reason
        _check(worker, tmp_path / loop)
        assert (worker.fps.last is None) == (loop == "silent")


def _continues(snapshot: Snapshot) -> bool:
    """True once the second attempt on `cpu0` has saved a checkpoint of its own."""
    newest = snapshot.workers[0].newest
    return newest.number == 2 and newest.checkpoint.path != newest.continued_from


async def test_seeds_on_a_cold_mesh_cache_build_in_turn_train_at_once_and_continue_from_their_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rsl_rl")
    monkeypatch.setenv("GS_CACHE_FILE_PATH", str(tmp_path / "meshes"))
    args = (f"{tmp_path}/{{i}}", "-B", "8", "--seed", "{seed}", "--log_dir", f"{tmp_path}/run-{{i}}")
    reasons: set[str | None] = set()

    def both_train(snapshot: Snapshot) -> bool:
        first, second = snapshot.workers
        if first.phase in (*_BEFORE_MESHES, Phase.CREATING, Phase.BUILDING):
            assert second.phase in _BEFORE_MESHES
        reasons.add(second.reason)
        return all(worker.fps and (worker.fps.seconds or 0.0) >= 15.0 for worker in snapshot.workers)

    saved: set[str] = set()

    def two_saved(snapshot: Snapshot) -> bool:
        saved.update(checkpoint.path for checkpoint in snapshot.workers[0].newest.checkpoints)
        return len(saved) > 1

    spec = spec_for(
        *(*args, "--save_interval", "5"),
        cpu=2,
        script=_TRAINING,
        start=StartMode.GATED,
        restart=RestartMode.FAILURE,
        resume_args=("--checkpoint", "{checkpoint}"),
        sigint_wait_s=60.0,
    )
    async with running(spec) as run:
        snapshot = await run.until(both_train, timeout_s=800)
        assert [(worker.state, worker.phase, worker.reason) for worker in snapshot.workers] == [
            (WorkerState.RUNNING, Phase.RUNNING, None)
        ] * 2
        speed, asked = await run.client.speed("cpu1"), time.monotonic()
        await run.client.act(Action.STOP, "cpu1")
        await run.until(two_saved)
        os.kill(await run.pid("cpu0"), signal.SIGKILL)
        await run.until(_continues, timeout_s=800)
        await run.client.act(Action.STOP, "cpu0")
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    _check_shares(speed.shares, asked, tmp_path / "1")
    assert "for cpu0 to write the mesh caches" in reasons
    for worker in snapshot.workers:
        assert worker.state is WorkerState.STOPPED, worker.reason
        assert (worker.newest.progress.total, worker.newest.progress.unit) == (1_000_000.0, "iteration")
        assert worker.newest.metrics.keys() >= {"reward"}
        assert any(name.startswith(("Train/", "Loss/")) for name in worker.newest.metrics)
    killed, stopped = snapshot.workers
    _check(stopped, tmp_path / "1")
    before, after = (
        torch.load(str(path), weights_only=False)["iter"]
        for path in (killed.newest.continued_from, killed.newest.checkpoint.path)
    )
    assert 0 < before < after
