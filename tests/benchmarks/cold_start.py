"""Four real Genesis workers on one cold cache: the first alone until its meshes are written, or all together."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.benchmarks.ground import ROOT, Ground
from tests.benchmarks.report import markdown, say

_WORKERS = 4
_SCRIPT = ROOT / "gmg_tui" / "examples" / "franka.py"
_RACED = "Ignoring corrupted cache"


class Start(NamedTuple):
    """What was measured of one start."""

    seconds: float
    raced: int
    """Half-written files that a worker met."""
    attempts: int
    """Of all workers together."""


def run(ground: Ground, *, quick: bool) -> None:
    """Measure both ways in turn, forth and back, and print the table."""
    found: dict[str, list[Start]] = {"gated": [], "together": []}
    for order in (list(found),) if quick else (list(found), list(reversed(found))):
        for way in order:
            say(f"{_WORKERS} Frankas on a cold cache, {way}")
            found[way].append(_start(ground, way, steps=10 if quick else 100))
    title = [f"{_WORKERS} Frankas on a cold cache, CPU", "all done after", "half-written files met", "attempts"]
    print(markdown(title, [[way, *_row(starts)] for way, starts in found.items()]))


def _row(starts: Sequence[Start]) -> tuple[str, str, str]:
    return (
        ", ".join(f"{start.seconds:.0f} s" for start in starts),
        ", ".join(str(start.raced) for start in starts),
        ", ".join(str(start.attempts) for start in starts),
    )


def _start(ground: Ground, way: str, *, steps: int) -> Start:
    caches = ground.folder / "cold"
    shutil.rmtree(caches, ignore_errors=True)
    caches.mkdir()
    summary = caches / "summary.json"
    env = ground.env() | {
        "GS_CACHE_FILE_PATH": str(caches / "genesis"),
        "QD_OFFLINE_CACHE_FILE_PATH": str(caches / "quadrants"),
    }
    options = ["--cpu", str(_WORKERS), "--start", way, "--headless", "--summary", str(summary)]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gmg_tui", *options, str(_SCRIPT), "--steps", str(steps)],
        env=env,
        check=True,
        capture_output=True,
    )
    seconds = time.monotonic() - began
    workers = json.loads(summary.read_bytes())["workers"]
    return Start(seconds, done.stdout.count(_RACED.encode()), sum(worker["attempts"] for worker in workers))
