"""Recognises scripts that may use Genesis by their imports: one that cannot need not wait while another builds its scene."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_INDIRECT = frozenset({"importlib", "multiprocessing", "runpy", "subprocess"})
"""Modules of the standard library that run code which a script's imports do not show."""
_MAX_FILES = 64
_MAX_BYTES = 1 << 20


def may_use_genesis(script: Path) -> bool:
    """Returns False if neither the script nor the modules beside it that it imports can reach Genesis.

    They mention it nowhere, and import nothing else but the standard library. It reads at most 64 files.
    """
    queue, seen = [script], {script}
    while queue:
        try:
            with queue.pop().open("rb") as file:
                text = file.read(_MAX_BYTES)
        except OSError:
            return True
        names = {name.decode() for name in _IMPORT.findall(text)}
        if b"genesis" in text or names & _INDIRECT or len(text) == _MAX_BYTES or len(seen) > _MAX_FILES:
            return True
        for name in names - sys.stdlib_module_names:
            module = script.with_name(f"{name}.py")
            if not module.is_file():
                return True
            if module not in seen:
                seen.add(module)
                queue.append(module)
    return False
