"""Alerts from recorded facts."""
