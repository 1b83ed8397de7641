"""Alerts as pure functions of facts gathered elsewhere, without a process or a clock."""
