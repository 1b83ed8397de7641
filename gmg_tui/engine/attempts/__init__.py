"""One attempt of a worker: its process from start to end, what the start waits for, and what its output says.

Workers decide when an attempt is made and whether another follows; nothing here knows of that.
"""
