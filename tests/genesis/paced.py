"""A Genesis script that counts its own environment steps: `python paced.py FOLDER LOOP`.

It writes to FOLDER/LOOP when each step ended, and how many environment steps were done then. The loops: `late` (a step each
20 ms, and lines come in bursts, 4 s apart) and `silent` (a step each second, and no lines of FPS or INFO).
"""

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
SILENT = LOOP == "silent"
TOTAL_S, PACE_S = 20.0, 1.0 if SILENT else 0.02

if not SILENT:
    sys.stdout = Late(sys.stdout)
gs.init(backend=gs.cpu, logging_level="warning" if SILENT else "info")
scene = gs.Scene(show_viewer=False, profiling_options=gs.options.ProfilingOptions(show_FPS=not SILENT))
scene.add_entity(gs.morphs.Plane())
for i in range(4):
    scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.05 * i, 0.0, 0.5 + 0.3 * i)))
scene.build(n_envs=N_ENVS)

periods: list[str] = []
begun = time.monotonic()
while time.monotonic() - begun < TOTAL_S:
    started = time.monotonic()
    scene.step()
    periods.append(f"{N_ENVS * (len(periods) + 1)} {time.monotonic()}")
    time.sleep(max(0.0, started + PACE_S - time.monotonic()))

Path(FOLDER, LOOP).write_text("\n".join(periods))
