"""What decides which job runs on which slot: the plain run's scheduler, and a sweep's queue.

Whoever decides jobs is a `Scheduler` (`scheduler.py`), chosen by `engine.main` and steered by the supervisor.
"""
