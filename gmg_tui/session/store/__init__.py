"""A session's store in SQLite, the single source of truth: jobs, attempts, metrics over time, the last snapshot.

The engine writes it through `writer`; everything else uses `reader`, even while the engine is running.
"""
