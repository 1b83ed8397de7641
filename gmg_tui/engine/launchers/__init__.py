"""Launchers start the agents of a session's nodes and connect to them; Ray's uses a separate process for each node."""
