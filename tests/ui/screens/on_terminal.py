"""The interface on an engine of fixed figures, on the terminal that this is started on (`python -m`).

`r` blocks the event loop for good, as a terminal does that nobody reads.
"""

from __future__ import annotations

import asyncio
import os
import time

from gmg_tui.protocol import Action
from gmg_tui.ui import lifeline
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage

BLOCKED = b"the loop is blocked"


class _Blocking(FakeEngine):
    async def act(self, action: Action, *slots: str) -> None:
        os.write(2, BLOCKED)
        time.sleep(3600)  # noqa: ASYNC251 - that is the point


async def _main() -> int:
    app = stage.app(_Blocking(stage.GPU_SESSION, stage.snapshot()))
    with lifeline.watch(lambda: app.finish("detached")):
        outcome = await app.run_async()
    return 0 if outcome is not None and outcome.how == "detached" else 1


if __name__ == "__main__":
    lifeline.check_terminal()
    raise SystemExit(asyncio.run(_main()))
