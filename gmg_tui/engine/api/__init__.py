"""The engine's socket: accepts clients, answers their requests, and sends them snapshots and log lines."""
