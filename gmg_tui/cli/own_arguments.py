"""Hides secrets in this process's arguments, which all users see in `ps`."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from gmg_tui.model.secrets import sounds_secret

_ENV = re.compile(rb"(?<=\0)(?:--env=|--env\0)([^=\0]+)=([^\0]+)")


def hide_arguments() -> None:
    """Overwrites the values of `--env` with names like secrets in the kernel's copy of the arguments (proc(5))."""
    with suppress(OSError, ValueError, IndexError):
        stat = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        start, end = int(stat[45]), int(stat[46])  # arg_start and arg_end
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            for found in _ENV.finditer(memory.read(end - start)):
                if sounds_secret(found[1].decode(errors="replace")):
                    memory.seek(start + found.start(2))
                    memory.write(b"*" * len(found[2]))
