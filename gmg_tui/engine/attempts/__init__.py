"""One attempt of a worker: its preparation, process and output."""
