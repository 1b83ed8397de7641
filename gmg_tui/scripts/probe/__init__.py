"""The probe, which counts steps and records phases in a worker's interpreter (`site/gmg_probe.py`)."""

import os
from collections.abc import Mapping
from pathlib import Path

SITE = str(Path(__file__).with_name("site"))
"""The folder of the `sitecustomize` that Python imports at its start."""
FOLDER_VARIABLES = "GMG_PROBE_DIR", "GMG_PROBE_SPARE_DIR"
"""The variables with the folder for the counts and stacks of an attempt's processes, and one for reports if it is removed."""


def python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable that adds `SITE` to the import path of `environ`."""
    # An empty entry would mean the working directory.
    return {"PYTHONPATH": os.pathsep.join(filter(None, (SITE, environ.get("PYTHONPATH"))))}


def packages() -> list[list[str]]:
    """Returns module, package and name of each simulator and trainer in `calls.txt`."""
    rows = Path(SITE, "calls.txt").read_text("utf-8").splitlines()
    return [row.split(maxsplit=3)[1:] for row in rows if row.startswith("name ")]
