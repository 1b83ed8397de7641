"""The vocabulary of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` percent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "unknown" or "not reported by the GPU", never 0.

The types are loaded on first use: a wrong command line, or one that asks for help, needs none.
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
        """Returns a name of one of the modules of types."""
        for module in () if name in (*_TYPES, *_OTHERS) or name.startswith("__") else _TYPES:
            if hasattr(found := import_module(f"{__name__}.{module}"), name):
                return globals().setdefault(name, getattr(found, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
