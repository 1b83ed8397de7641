"""What a worker prints of warnings and errors, as clients see it."""

from __future__ import annotations

from pathlib import Path

from gmg_tui.model import WorkerState
from tests.engine.harness import running, spec_for

SCRIPT = """
import sys, warnings
attempt = int(sys.argv[1])
for number in range(3 * attempt):
    print(f"[Genesis] [07:00:0{number}] [WARNING] Neutral robot position exceeds joint limits.", flush=True)
warnings.warn("old")
raise ValueError("no such joint")
"""


async def test_warnings_and_errors_of_the_attempt_are_counted(tmp_path: Path) -> None:
    script = tmp_path / "sim.py"
    script.write_text(SCRIPT)
    async with running(spec_for("1", script=str(script), restart="never")) as engine:
        worker = await engine.until_state("cpu0", WorkerState.FAILED)
        assert (worker.warning_lines, worker.error_lines) == (4, 1)
        await engine.client.edit(("cpu0",), ("2",), {})
        await engine.until_attempt("cpu0", 2)
        worker = await engine.until_state("cpu0", WorkerState.FAILED)
        assert (worker.warning_lines, worker.error_lines) == (7, 1)
