"""Reads what a worker prints: phases, rates, progress, warnings, and the reason of a failure."""
