"""All workers: tiles or a table, with a line for each node of a session on several machines."""
