"""Options of gmg-tui that were written after the script: `gmg-tui sim.py --gpus 0,1`. There they are the script's own."""

from __future__ import annotations

import re

from gmg_tui.engine.attempts.task import Task
from gmg_tui.genesis.output.failures import Failure

_REFUSED = re.compile(r"unrecogni[sz]ed|no such option|unknown", re.IGNORECASE)
"""What argparse, click and getopt say of an option that a script does not have."""


def explained(failure: Failure, task: Task) -> Failure:
    """`failure`, with the right order as its advice where the script has refused an option that gmg-tui has."""
    words = failure.reason.replace("=", " ").replace("'", " ").split()
    refused = [option for option in task.own_options if option in words]
    if not refused or _REFUSED.search(failure.reason) is None:
        return failure
    goes = "goes" if len(refused) == 1 else "go"
    order = " ".join([*(f"{option} …" for option in refused), *(["-m"] if task.module else [])])
    advice = f"gmg-tui's {' and '.join(refused)} {goes} before the script: gmg-tui {order} {task.script}"
    return failure._replace(advice=advice)
