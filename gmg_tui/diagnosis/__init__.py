"""What is wrong with a session, as alerts: pure functions from facts that others gather. Knows no process and no clock."""
