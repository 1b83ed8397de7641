"""Processes as the system has them: started, identified with all their descendants, and ended."""
