"""Pages that cover the main screen, and the help."""
