"""The small process that ends the workers of a killed engine, and its client in the engine."""
