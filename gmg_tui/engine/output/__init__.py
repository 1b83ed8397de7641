"""A worker's output: pipes, lines, a ring buffer, log files; and its metrics over time."""
