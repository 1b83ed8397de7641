"""A session's store in SQLite: jobs, attempts, events and metrics over time.

The engine writes it through `writer`, whose own thread alone loads SQLite there; everything else uses `reader`, also
while the engine runs.
"""
