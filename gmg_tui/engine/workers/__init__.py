"""Slots and their workers: state, restarts, and groups of ranks."""
