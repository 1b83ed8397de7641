"""Reads a worker's output: phases, rates, progress, warnings, and the reason for a failure."""
