"""A Genesis script that counts its own environment steps: `python paced.py FOLDER LOOP`.

It writes to FOLDER/LOOP when each period of its loop ended, and how many environment steps were done then. The loops: `steady`
(a step each 20 ms), `slow` (a step each second), `learning` (24 steps as quick as they are, then 0.3 s), `late` (`steady`,
and lines come in bursts, 4 s apart), `hidden` (`steady` with `show_FPS=False`) and `warning` (`steady` with
`logging_level="warning"`).
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TextIO

import genesis as gs


class Late(io.StringIO):
    """A stream that hands on what it holds every four seconds."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream, self._at = stream, time.monotonic()

    def flush(self) -> None:
        if time.monotonic() - self._at > 4:
            self._stream.write(self.getvalue())
            self._stream.flush()
            self.seek(0)
            self.truncate()
            self._at = time.monotonic()


FOLDER, LOOP = sys.argv[1:]
N_ENVS = 8
TOTAL_S = 25.0
PACE_S, STEPS, PAUSE_S = {"slow": (1.0, 1, 0.0), "learning": (0.0, 24, 0.3)}.get(LOOP, (0.02, 1, 0.0))

if LOOP == "late":
    sys.stdout = Late(sys.stdout)
gs.init(backend=gs.cpu, logging_level="warning" if LOOP == "warning" else "info")
scene = gs.Scene(show_viewer=False, profiling_options=gs.options.ProfilingOptions(show_FPS=LOOP != "hidden"))
scene.add_entity(gs.morphs.Plane())
for i in range(4):
    scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.05 * i, 0.0, 0.5 + 0.3 * i)))
scene.build(n_envs=N_ENVS)

periods: list[str] = []
steps = 0
begun = time.monotonic()
while time.monotonic() - begun < TOTAL_S:
    started = time.monotonic()
    scene.step()
    steps += 1
    if steps % STEPS == 0:
        periods.append(f"{N_ENVS * steps} {time.monotonic()}")
        time.sleep(PAUSE_S)
    time.sleep(max(0.0, started + PACE_S - time.monotonic()))

Path(FOLDER, LOOP).write_text("\n".join(periods))
