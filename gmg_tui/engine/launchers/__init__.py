"""Launchers start the agents of a session's nodes and connect to them; each is a file here."""
