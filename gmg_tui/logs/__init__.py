"""What a worker's log file holds beside its output: where its middle is cut out, and where an attempt begins."""
