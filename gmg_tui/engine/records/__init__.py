"""The records of a session: its files and its rows in the store.

Schedulers report to the recorder; the supervisor and `engine.main` have the session's files written.
"""
