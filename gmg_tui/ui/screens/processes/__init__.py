"""The processes on one GPU: whose they are, and a way to end those that should not be there."""
