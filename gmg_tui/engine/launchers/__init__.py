"""Launchers start the agents of a session's nodes and connect to them; Ray's runs a process of its own for each."""
