"""The books of a session: its record and summary, its rows in the store, and the engine's own log.

Schedulers report to the recorder; the supervisor and `engine.main` have the session's files written.
"""
