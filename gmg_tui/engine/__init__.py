"""The engine: the process that owns a session's workers and its NVML handle. It is independent of terminals.

`main` runs the session; below it, `api` answers clients, `observer` watches the work, `supervisor` controls it,
`scheduling` assigns jobs to slots, `workers` and `attempts` run processes, `output` reads from them, and `records`
writes files. `launchers` and `nodes` run agents on other machines; `watchdog` ends the workers if the engine is killed.
Clients do not import the engine: they talk to its socket.
"""
