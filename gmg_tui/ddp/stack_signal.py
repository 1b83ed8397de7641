"""The signal on which a rank writes its Python stacks to a file, and what its environment needs for that."""

from __future__ import annotations

import signal
from typing import Final

SIGNAL: Final = int(signal.SIGRTMIN) + 12
"""A real-time signal that no library of ours takes; a rank that has no handler for it would die of it."""


def variables(file: str) -> dict[str, str]:
    """What makes a Python with the probe's `sitecustomize` write its stacks to `file`, absolute, when it is asked."""
    return {"GMG_STACK_FILE": file, "GMG_STACK_SIGNAL": str(SIGNAL)}
