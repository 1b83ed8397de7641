"""Sessions on several machines: the engine assigns work to an agent, itself an engine, on each."""
