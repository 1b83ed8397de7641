"""Sessions on several machines: the session's engine sends each node's agent what to run, and the agent reports.

An agent is an engine too, with the same workers, logs, samples and watchdog; instead of deciding what runs, it takes
orders. A node's connection may break and come back: orders are numbered, and those that an agent has not taken are sent
again; a report is the state of a worker, not a change of it, so that one that was lost is made good by the next.
"""
