"""The queue of a sweep: its slots, its jobs, and the dialog that chooses its GPUs."""
