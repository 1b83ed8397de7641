"""Recognises scripts that may use Genesis, by their imports: others need not wait for each other's scenes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_INDIRECT = frozenset({"importlib", "multiprocessing", "runpy", "subprocess"})
"""Modules of the standard library that run code without a visible import."""
_MAX_FILES = 64
_MAX_BYTES = 1 << 20


def may_use_genesis(script: Path) -> bool:
    """Returns False if the script and the modules beside it only import each other and the standard library.

    Reads at most 64 files.
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
