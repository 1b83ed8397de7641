"""A session's store: jobs, attempts, events and figures in SQLite, written while it runs, read by whoever asks later.

`writer` is the engine's side, `reader` everybody else's. Only the writer's own thread loads SQLite in the engine.
"""
