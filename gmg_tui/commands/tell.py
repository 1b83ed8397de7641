"""What a command says beside its output."""

from __future__ import annotations

import sys


def tell(text: str) -> None:
    """Say a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)
