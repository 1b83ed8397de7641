"""The workers as tiles or as a table, with a line for each node of a session on several machines."""
