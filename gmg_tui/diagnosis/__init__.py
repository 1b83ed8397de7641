"""Alerts: pure functions from facts that others gather, without a process or a clock of their own."""
