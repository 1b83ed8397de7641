"""A worker and all that belongs to one: its state, when another attempt follows, and its place in a group.

Schedulers make workers and tell them to start, stop and restart; nothing here knows of jobs' order or of clients.
"""
