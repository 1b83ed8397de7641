"""A worker and all that belongs to one: its attempts, what starts them, their place in a group, and the start gate.

Schedulers make workers and tell them to start, stop and restart; nothing here knows of jobs' order or of clients.
"""
