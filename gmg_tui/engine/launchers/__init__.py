"""What starts the agents of a session's nodes, and connects to them: each launcher is a file here."""
