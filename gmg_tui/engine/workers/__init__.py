"""A worker: its state, when another attempt follows, and its membership in a group."""
