"""The engine: the process that owns a session's workers and its NVML handle. It is independent of terminals.

`main` runs the session; below it `api` answers clients, `observer` watches, `supervisor` steers, `scheduling` decides
what runs where, `records` writes the records, `workers` runs processes, `output` reads them. No other package imports the
engine: clients talk to its socket.
"""
