"""What runs in a worker's interpreter: it counts steps and marks phases where they happen (`site/gmg_probe.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SITE = str(Path(__file__).with_name("site"))
"""The folder whose `sitecustomize` Python imports as it starts."""
FOLDER = "GMG_PROBE_DIR"
"""Names the folder in which each process of an attempt writes its counts."""


def on_path(environ: Mapping[str, str]) -> dict[str, str]:
    """What has Python import the `sitecustomize` in `SITE`, given the rest of its environment."""
    # An empty entry would be the working directory.
    return {"PYTHONPATH": os.pathsep.join(filter(None, (SITE, environ.get("PYTHONPATH"))))}
