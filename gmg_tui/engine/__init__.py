"""The engine: the process that owns a session's workers and its NVML handle. It is independent of terminals.

`main` runs the session; below it, `api` answers clients, `observer` watches the work, `supervisor` controls it,
`scheduling` assigns jobs to slots, `records` writes the records, `workers` and `attempts` run processes, and `output`
reads from them. No other package imports the engine: clients talk to its socket.
"""
