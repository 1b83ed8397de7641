"""A worker and all that belongs to one: its state, when another attempt follows, and its membership in a group.

Schedulers make, start, stop and restart workers; nothing here depends on jobs' order or on clients.
"""
