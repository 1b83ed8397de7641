"""The work to run: the jobs of a sweep, the trials of a tuning run, and the placeholders in their arguments."""
