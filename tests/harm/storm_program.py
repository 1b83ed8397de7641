"""The interface on an engine of known figures, on the terminal that this is started on: `python -m … KIND PACE_S`.

KIND is `plain`, `sweep` or `tune`. A snapshot and a line of the log come every `PACE_S` seconds, `MOMENTS` of them; then nothing
changes any more, so that two of these programs show the same on the same keys.
"""

import asyncio
import sys
from collections.abc import Callable

from gmg_tui import ui
from gmg_tui.model import ArgumentResults, Snapshot
from tests import tunings
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine

MOMENTS = 100


async def _live(engine: FakeEngine, snapshot: Callable[[float], Snapshot], pace_s: float) -> None:
    for moment in range(1, MOMENTS + 1):
        engine.log = {slot: (*lines, f"moment {moment}") for slot, lines in engine.log.items()}
        engine.push(snapshot(float(moment)))
        await asyncio.sleep(pace_s)


async def main(kind: str, pace_s: float) -> int:
    from gmg_tui.ui.app import GmgApp

    if kind == "sweep":
        engine, records = sweeps.engine(), sweeps.jobs()
        snapshot: Callable[[float], Snapshot] = lambda second: sweeps.snapshot(records, second=second)  # noqa: E731
    elif kind == "tune":
        engine = FakeEngine(tunings.session(tunings.EDGE), tunings.snapshot(tunings.LADDER))
        engine.log = {slot.name: sessions.log_of(play.LOG_LINES) for slot in engine.welcome.session.slots}
        snapshot = lambda second: tunings.snapshot(tunings.EDGE if second > MOMENTS / 2 else tunings.LADDER, second)  # noqa: E731
    else:
        engine, snapshot = play.engine_of(sessions.varied_snapshot()), lambda second: sessions.varied_snapshot(second)
    engine.details_of = {slot.name: sessions.details(slot.name) for slot in engine.welcome.session.slots}
    engine.tried_so_far = tuple(ArgumentResults(("-B", str(1 << n)), rate=1000.0 * n, n_envs=1 << n) for n in range(40))
    play.FakedApp.REDRAW_INTERVAL_S = GmgApp.REDRAW_INTERVAL_S
    app = play.app_of(engine)
    coming = asyncio.create_task(_live(engine, snapshot, pace_s))
    outcome = await app.run_async()
    coming.cancel()
    return 0 if outcome is not None and outcome.kind == "detached" else 1


if __name__ == "__main__":
    ui.load()
    raise SystemExit(asyncio.run(main(sys.argv[1], float(sys.argv[2]))))
