"""All that was tried in the session: each set of arguments with what it reached."""
