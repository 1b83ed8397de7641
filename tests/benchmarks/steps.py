"""Runs a Genesis script unchanged and writes the seconds that a simulation step took to a file: `steps.py FILE SCRIPT ARGS…`.

What comes before (imports, building, the first steps, in which kernels are loaded) is left out.
"""

import runpy
import sys
import time
from pathlib import Path

import genesis as gs

SETTLED = 500
"""Steps before the clock is started."""


def main() -> None:
    """Run the script with its `Scene.step` counted."""
    took, script, *args = sys.argv[1:]
    step = gs.Scene.step
    count, began, ended = 0, 0.0, 0.0

    def counted(scene: gs.Scene, *more: object, **options: object) -> object:
        nonlocal count, began, ended
        result = step(scene, *more, **options)
        count += 1
        ended = time.monotonic()
        if count == SETTLED:
            began = ended
        return result

    gs.Scene.step = counted
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")
    Path(took).write_text(f"{(ended - began) / (count - SETTLED)}\n")


if __name__ == "__main__":
    main()
