"""Sessions for Prometheus."""
