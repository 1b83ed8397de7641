"""Running sessions for Prometheus: `following` keeps their newest snapshots, of which `collector` makes metrics."""
