"""A Genesis scene on the GPU that counts its own steps: `python counted.py FILE N_ENVS SECONDS`.

Writes environment steps, and the seconds between the first and the last step's end, to FILE.
"""

import json
import sys
import time
from pathlib import Path

import genesis as gs

path, n_envs, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
gs.init(backend=gs.gpu)
scene = gs.Scene(show_viewer=False)
scene.add_entity(gs.morphs.Plane())
scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.0, 0.0, 0.5)))
scene.build(n_envs=n_envs)
scene.step()
begin = last = time.monotonic()
steps = 0
while last - begin < seconds:
    scene.step()
    steps += 1
    last = time.monotonic()
path.write_text(json.dumps({"env_steps": steps * n_envs, "seconds": last - begin}))
