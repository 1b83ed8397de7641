"""The dialog that edits arguments and environment, and restarts workers with them."""
