"""The workers' output: pipes, lines, ring buffers and log files; and the slots' histories."""
