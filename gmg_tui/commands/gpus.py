"""`gpus`: the cards, one line each, once."""

from __future__ import annotations

from contextlib import closing

import msgspec

from gmg_tui.errors import GmgError
from gmg_tui.gpu import listing
from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable


def gpus(*, as_json: bool) -> int:
    """Print the cards; the exit status. Raises `GmgError` where NVML shows none."""
    try:
        with closing(Nvml.open()) as nvml:
            rows = listing.rows(nvml)
    except NvmlUnavailable as error:
        raise GmgError(f"no GPU: {error}", 1) from error
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    else:
        print("\n".join(listing.lines(rows)) or "the driver shows no GPU")
    return 0
