"""The interface on an engine of fixed figures, on the terminal that this is started on (`python -m`).

Its argument, if any, is how many seconds it may take to end in order once the terminal is lost. `r` blocks the event
loop for good, as a terminal does that nobody reads.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping

from gmg_tui.session.protocol import Action, Seen
from gmg_tui.ui import terminal
from gmg_tui.ui.app import GmgApp
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine

BLOCKED = b"the loop is blocked"


class _Blocking(FakeEngine):
    async def act(self, action: Action, *slots: str, seen: Mapping[str, Seen] | None = None) -> None:
        os.write(2, BLOCKED)
        time.sleep(3600)  # noqa: ASYNC251 - that is the point


async def _main() -> int:
    GmgApp.SILENT_S = 1 << 30  # this engine says nothing more
    app = play.app_of(_Blocking(sessions.session(4), sessions.edited_snapshot()))
    grace_s = float(sys.argv[1]) if len(sys.argv) > 1 else terminal.GRACE_S
    with terminal.watch(lambda: app.finish("detached"), grace_s=grace_s):
        outcome = await app.run_async()
    return 0 if outcome is not None and outcome.kind == "detached" else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(_main()))
