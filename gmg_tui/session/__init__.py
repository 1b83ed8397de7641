"""Sessions of this user: names, folders, locks, sockets, records, and the leftovers of killed engines.

Use the names of `paths` and `session_record` as `sessions.NAME`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # ruff: noqa: F403
    from gmg_tui.session.paths import *
    from gmg_tui.session.session_record import *
else:
    from importlib import import_module

    _MODULES = ("paths", "session_record")
    _OTHERS = ("client", "ended_session", "options", "protocol", "store", "tried")

    def __getattr__(name):
        """Returns a name of one of the two modules."""
        for module in () if name in (*_MODULES, *_OTHERS) or name.startswith("__") else _MODULES:
            if hasattr(found := import_module(f"{__name__}.{module}"), name):
                return globals().setdefault(name, getattr(found, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
