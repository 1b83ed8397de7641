"""The signal on which a rank writes its Python stacks to a file, and what its environment needs for that."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SIGNAL: Final = int(signal.SIGRTMIN) + 12
"""A real-time signal that no library of ours takes; a rank that has no handler for it would die of it."""
SITE: Final = str(Path(__file__).with_name("site"))
"""The folder whose `sitecustomize` registers the handler."""
_PATH = "PYTHONPATH"


def variables(file: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What makes a Python write its stacks to `file`, absolute, when it is asked; `environ` is the rest of its own."""
    before = environ.get(_PATH, "")  # an empty entry would be the working directory
    path = f"{SITE}{os.pathsep}{before}" if before else SITE
    return {_PATH: path, "GMG_STACK_FILE": file, "GMG_STACK_SIGNAL": str(SIGNAL)}
