"""Sessions on several machines."""
