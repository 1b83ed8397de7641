"""Torch's groups of ranks: what torchrun sets, and what torch's distributed parts write."""
