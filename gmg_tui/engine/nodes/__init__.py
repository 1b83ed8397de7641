"""Sessions on several machines: the engine assigns work to an agent on each, which is an engine too."""
