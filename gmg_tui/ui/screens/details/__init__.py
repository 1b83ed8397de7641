"""All there is to know of one worker: charts, attempts, command line and environment, GPU."""
