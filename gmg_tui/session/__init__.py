"""Sessions of this user: names, folders, locks, sockets, records, and the leftovers of killed engines.

Import it as `sessions`: it re-exports the modules `paths` and `session_record`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # ruff: noqa: F403
    from gmg_tui.session.paths import *
    from gmg_tui.session.session_record import *
else:
    from importlib import import_module

    _MODULES = ("paths", "session_record")
    _SUBMODULES = ("client", "ended_session", "options", "protocol", "store")

    def __getattr__(name):
        """Returns the value of a name in the two modules, which are imported on first use."""
        for module in () if name in (*_MODULES, *_SUBMODULES) or name.startswith("__") else _MODULES:
            if hasattr(loaded := import_module(f"{__name__}.{module}"), name):
                return globals().setdefault(name, getattr(loaded, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
