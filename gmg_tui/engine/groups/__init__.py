"""Groups: workers that are the ranks of one job, and start, end and restart as one."""
