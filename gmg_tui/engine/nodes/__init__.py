"""Sessions on several machines: the session's engine assigns work to the agent of each node, and the agents report.

An agent is an engine with the same workers, logs, samples and watchdog, whose scheduler runs what is assigned.
"""
