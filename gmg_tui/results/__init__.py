"""What became of a session's jobs, in two files for other programs: one JSON in full, one CSV with a row for each job."""

from __future__ import annotations

from gmg_tui.results.files import DETAILED, SUMMARY, Results

__all__ = ["DETAILED", "SUMMARY", "Results"]
