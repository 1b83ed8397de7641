"""Checks on a machine with NVIDIA GPUs: `pytest -m gpu` runs them in at most eight minutes; without NVML they are skipped.

They compare what gmg-tui reports with `nvidia-smi`, nvitop and torch, and write `hardware.json` and `hardware.md` into the
current folder, which can be attached to an issue.
"""
