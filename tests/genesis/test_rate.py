"""The settled rate of real loops is what they count themselves, by `perf_counter`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import WorkerState
from tests.engine.harness import running, spec_for
from tests.harm.scale import FULL

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]

_SCRIPT = str(Path(__file__).with_name("paced.py"))
_WINDOWS_S = (8.0, 10.0, 12.5)
"""Script and engine do not see exactly the same last ten seconds, which on a busy machine differ from those before."""


_LOOPS = ("steady", "slow", *(("learning", "paced", "often") if FULL else ()))
"""Those with stalls need a machine that does nothing else: where steps take several times as long now and then, nobody
can tell these from short stalls."""
_OFF = 0.05 if FULL else 0.15


def _counted(file: Path) -> list[float]:
    """The rates of the last whole periods, over windows of several lengths."""
    periods = [(float(steps), float(start)) for steps, start in map(str.split, file.read_text().splitlines())]
    last, end = periods[-1]
    rates: list[float] = []
    for window_s in _WINDOWS_S:
        first, start = next(one for one in reversed(periods) if end - one[1] >= window_s)
        rates.append((last - first) / (end - start))
    return rates


@pytest.mark.slow
@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("loop", _LOOPS)
async def test_the_settled_rate_is_steps_by_wall_time(loop: str, tmp_path: Path) -> None:
    file = tmp_path / "starts"
    async with running(spec_for(str(file), loop, cpu=1, script=_SCRIPT)) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended, timeout_s=840)
    (worker,) = snapshot.workers
    assert worker.state is WorkerState.FINISHED, worker.reason
    assert worker.fps is not None
    assert worker.fps.settled is not None
    rates = _counted(file)
    assert (1 - _OFF) * min(rates) < worker.fps.settled < (1 + _OFF) * max(rates), (worker.fps, rates)
