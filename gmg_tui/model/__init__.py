"""The vocabulary of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` per cent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "unknown" or "not reported by the GPU", never 0.
"""

# ruff: noqa: F403
from gmg_tui.model.attempt import *
from gmg_tui.model.gpus import *
from gmg_tui.model.jobs import *
from gmg_tui.model.run import *
from gmg_tui.model.snapshot import *
from gmg_tui.model.states import *
from gmg_tui.model.tried import *
from gmg_tui.model.tuning import *
from gmg_tui.model.worker import *
