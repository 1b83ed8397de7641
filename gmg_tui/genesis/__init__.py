"""All that is known of Genesis: its progress lines and phases, its failures, its environment and caches."""
