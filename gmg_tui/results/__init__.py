"""A session's results as files for other programs: `detailed_results.json`, and `summary_results.csv` with a row per job.

Where jobs are run several times, `combined_results.csv` has a row per combination.
The engine's store writer keeps both up to date; `report` makes the same bytes from a store.
"""

from __future__ import annotations

from gmg_tui.results.files import COMBINED, DETAILED, SUMMARY, Results

__all__ = ["COMBINED", "DETAILED", "SUMMARY", "Results"]
