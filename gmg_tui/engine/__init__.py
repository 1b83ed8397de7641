"""The engine: the process that owns a session's workers and its NVML handle. It is independent of terminals.

`main` runs the session that `composition` has put together; below them `api` answers clients, `supervisor` steers,
`scheduling` decides what runs where, `records` keeps the books, `workers` runs processes, `output` reads them.
Each uses only what stands below it; nobody outside imports the engine, clients talk to its socket.
"""
