"""The vocabulary of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` percent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "unknown" or "not reported by the GPU", never 0.

Types are imported on first use: help and usage errors need none.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # ruff: noqa: F403
    from gmg_tui.model.alert import *
    from gmg_tui.model.attempt import *
    from gmg_tui.model.curves import *
    from gmg_tui.model.gpus import *
    from gmg_tui.model.jobs import *
    from gmg_tui.model.run import *
    from gmg_tui.model.snapshot import *
    from gmg_tui.model.speed import *
    from gmg_tui.model.states import *
    from gmg_tui.model.tried import *
    from gmg_tui.model.tuning import *
    from gmg_tui.model.worker import *
else:
    from importlib import import_module

    _TYPES = "states alert speed attempt curves gpus jobs run snapshot tried tuning worker".split()  # noqa: SIM905
    _OTHERS = ("errors", "secrets", "text", "units")

    def __getattr__(name):
        """Imports the module of a type on its first use. Raises `AttributeError` for any other name."""
        for module in () if name in (*_TYPES, *_OTHERS) or name.startswith("__") else _TYPES:
            if hasattr(loaded := import_module(f"{__name__}.{module}"), name):
                return globals().setdefault(name, getattr(loaded, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
