"""The machine: GPUs, Slurm, files, and calls that may block."""
