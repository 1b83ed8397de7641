"""The records of a session: its files, and its rows in the store."""
