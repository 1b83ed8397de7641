"""What the probe counts inside the real Genesis is what the script counts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import Snapshot, Worker, WorkerState
from tests.engine.harness import running, spec_for

pytestmark = [
    pytest.mark.genesis,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("light"),
]

_PACED, _QUIET = (str(Path(__file__).with_name(name)) for name in ("paced.py", "quiet.py"))


def _check(worker: Worker, file: Path) -> None:
    """The worker's rate is that of the script's own count, of whole periods over windows of several lengths."""
    periods = [(float(steps), float(end)) for steps, end in map(str.split, file.read_text().splitlines())]
    last, ended = periods[-1]
    rates: list[float] = []
    for done, end in periods:  # script and engine do not see exactly the same seconds
        for window_s in (8.0, 9.0, 10.0, 11.0, 12.5, 14.0) if end > ended - 4 else ():
            first, begin = next((each for each in reversed(periods) if end - each[1] >= window_s), periods[0])
            rates.append((done - first) / (end - begin))
    assert worker.state is WorkerState.FINISHED, worker.reason
    assert worker.n_envs == 8
    assert worker.fps is not None
    assert worker.fps.counted == "probe"
    assert worker.fps.env_steps == pytest.approx(last - 8, abs=24 * 8), "the first step begins the count"
    assert worker.fps.settled is not None
    print(f"{file.name}: {worker.fps.settled:.2f} by the probe, {min(rates):.2f} to {max(rates):.2f} by the script")
    assert 0.99 * min(rates) < worker.fps.settled < 1.01 * max(rates), (worker.fps, rates)


@pytest.mark.parametrize("loops", [("steady", "slow"), ("learning", "late"), ("hidden", "warning")])
async def test_the_rate_is_steps_by_wall_time(loops: tuple[str, str], tmp_path: Path) -> None:
    run_loop = f"import runpy, sys; sys.argv[2] = {loops}[int(sys.argv[2])]; runpy.run_path({_PACED!r})"
    script = tmp_path / "one_of_two.py"
    script.write_text(run_loop)
    async with running(spec_for(str(tmp_path), "{i}", cpu=2, script=str(script))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended, timeout_s=840)
    for worker, loop in zip(snapshot.workers, loops, strict=True):
        _check(worker, tmp_path / loop)
        assert worker.fps is not None
        assert worker.fps.last is None or loop not in ("hidden", "warning")


async def test_two_seeds_of_rsl_rl_train_at_once_however_often_they_are_started(tmp_path: Path) -> None:
    pytest.importorskip("rsl_rl")
    args = ("--level", "warning", "-B", "8", "--iterations", "240", "--seed", "{seed}", "--count", f"{tmp_path}/{{i}}")
    reasons: set[str] = set()

    def ended(snapshot: Snapshot) -> bool:
        if any(worker.state is WorkerState.RUNNING for worker in snapshot.workers):
            reasons.update(worker.reason for worker in snapshot.workers if worker.reason)
        return snapshot.ended

    for _ in range(2):
        async with running(spec_for(*args, cpu=2, script=_QUIET, sigint_wait_s=60.0)) as run:
            snapshot = await run.until(ended, timeout_s=800)
        for worker, name in zip(snapshot.workers, "01", strict=True):
            _check(worker, tmp_path / name)
            assert worker.progress is not None
            assert (worker.progress.done, worker.progress.total, worker.progress.unit) == (240.0, 240.0, "iteration")
    assert reasons == set(), "nobody is held while another trains"
