"""The log of a worker: its file, the loaded rows, and the widget."""
