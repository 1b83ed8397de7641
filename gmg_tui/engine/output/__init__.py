"""The way of a worker's bytes: pipes, lines, a buffer of the newest, log files; and its metrics over time."""
