"""Sessions of this user: names, folders, locks, sockets, records, and what a killed engine leaves.

What `paths` and `records` define is used as `sessions.NAME`.
"""

from gmg_tui.session.paths import *  # noqa: F403
from gmg_tui.session.records import *  # noqa: F403
