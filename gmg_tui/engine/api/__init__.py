"""The engine's socket: accepts clients, answers their requests, and sends them snapshots and log lines.

Called by `engine.main` alone; it calls the supervisor, and never waits for a slow client.
"""
