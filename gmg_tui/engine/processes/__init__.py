"""Processes as the system has them: how one is started, found again with all its descendants, watched and ended.

Nothing here knows of jobs or of Genesis' output; `workers` uses it.
"""
