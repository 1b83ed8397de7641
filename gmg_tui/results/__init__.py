"""A session's results: rows, tables, files, pages, and metrics for Prometheus."""
