"""Alerts and verdicts, derived only from facts gathered elsewhere: no processes, no clock."""
