"""Processes as the system has them: how they are started, identified with all their descendants, watched and ended.

Nothing here depends on jobs or on Genesis' output; `workers` uses it.
"""
