"""One attempt of a worker: its process, what its start waits for, and what its output reports."""
