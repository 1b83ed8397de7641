"""The terminal interface: a client that draws snapshots and sends commands."""
