"""The Slurm job that gmg-tui runs in."""
