"""A script that looks at its own steps by `perf_counter`: `python paced.py FILE LOOP` writes to FILE when each began.

The loops: `steady` (a step each 20 ms), `slow` (a step each second), and with a stall after so many steps `learning`
(0.3 s after 24 steps as quick as they are), `paced` (0.3 s after 24 steps of 10 ms), `often` (0.1 s after 10 steps of 5 ms).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import genesis as gs

FILE, LOOP = sys.argv[1:]
N_ENVS = 8
TOTAL_S = 32.0
PACE_S, COUNT, STALL_S = {
    "steady": (0.02, 1, 0.0),
    "slow": (1.0, 1, 0.0),
    "learning": (0.0, 24, 0.3),
    "paced": (0.01, 24, 0.3),
    "often": (0.005, 10, 0.1),
}[LOOP]
"""The pace does not depend on what else the machine has to do."""

gs.init(backend=gs.cpu)
scene = gs.Scene(show_viewer=False)
scene.add_entity(gs.morphs.Plane())
for i in range(4):
    scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.05 * i, 0.0, 0.5 + 0.3 * i)))
scene.build(n_envs=N_ENVS)

starts: list[float] = []
begun = time.perf_counter()
while time.perf_counter() - begun < TOTAL_S:
    starts.append(time.perf_counter())
    scene.step()
    time.sleep(max(0.0, starts[-1] + PACE_S - time.perf_counter()))
    if len(starts) % COUNT == 0:
        time.sleep(STALL_S)

# The step that a stall followed is the last of its period.
Path(FILE).write_text(
    "\n".join(f"{N_ENVS * number} {start}" for number, start in enumerate(starts) if number % COUNT == 0)
)
