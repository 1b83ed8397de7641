"""A session's results for other programs, generated from its store.

They are `summary.json` and `tune.json`, and of a sweep `detailed_results.json` and `summary_results.csv`, with a row for
each job.
"""

from __future__ import annotations

from typing import Final

TUNE: Final = "tune.json"
DETAILED: Final = "detailed_results.json"
TABLE: Final = "summary_results.csv"
