"""Telling a person who looks elsewhere what happens: the newest occurrences, and the command of `--notify`."""
