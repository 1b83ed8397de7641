"""The machine: GPUs, processes, control groups, Slurm, files, and calls that may block."""
