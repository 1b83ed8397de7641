"""What a Slurm job says of itself, and the file that submits one."""
