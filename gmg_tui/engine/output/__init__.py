"""The way of a worker's bytes: pipes read together, split into lines, kept in a ring buffer, written to log files.

Workers hand their pipes in here; the API reads lines and histories out of it. Nothing here depends on workers.
"""
