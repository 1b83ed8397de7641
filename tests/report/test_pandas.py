"""The lines of pandas in the README, run as they stand there on what `gmg-tui report --csv` prints."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from . import stored

README = Path(__file__).parents[2] / "README.md"


def test_the_lines_in_the_readme_read_a_report(tmp_path: Path) -> None:
    lines = README.read_text().partition("In pandas")[2].partition("```python\n")[2].partition("```")[0]
    assert "pandas.read_csv" in lines
    jobs = stored.jobs(6)
    asyncio.run(stored.session("exp-1", jobs))
    (tmp_path / "gmg-tui").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gmg_tui "$@"\n')
    (tmp_path / "gmg-tui").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = [sys.executable, "-c", lines]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    columns, name, *rows = (row.split() for row in done.stdout.splitlines())
    assert (columns, name) == (["mean", "std"], ["n_envs"])
    assert {row[0] for row in rows} == {f"{job.n_envs}" for job in jobs}
