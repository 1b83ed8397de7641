"""Sessions on several machines: an agent (itself an engine) on each one runs what the session's engine assigns."""
