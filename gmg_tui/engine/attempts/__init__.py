"""One attempt of a worker: its process from start to end, what the start waits for, and what its output reports.

Workers decide when an attempt is made and whether another follows; nothing here depends on that.
"""
