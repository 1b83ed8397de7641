"""A worker and all that belongs to one: its attempts, processes, start gate, restarts, memory and measurements.

Schedulers make workers and tell them to start, stop and restart; nothing here knows of jobs' order or of clients.
"""
