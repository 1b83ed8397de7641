"""The small process that ends the workers of an engine which was killed, and the engine's client of it."""
