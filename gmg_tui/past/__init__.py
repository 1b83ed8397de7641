"""Looking back: a session's life from its store and logs, as a screen shows it, without its engine."""
