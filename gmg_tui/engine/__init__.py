"""The engine: the process that owns a session's workers and its NVML handle. It is independent of terminals.

`main` runs the session; below it `api` answers clients, `observer` watches, `supervisor` steers, `scheduling` decides
what runs where, `records` keeps the books, `workers` runs processes, `output` reads them. Nobody outside imports the
engine: clients talk to its socket.
"""
