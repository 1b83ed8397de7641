"""Everything that depends on Genesis: its progress lines and phases, failures, environment and caches."""
