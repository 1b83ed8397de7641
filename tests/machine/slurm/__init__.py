"""Tests in jobs of a real Slurm, whose daemons they start on this machine."""
