"""The small process that ends the workers of an engine which was killed, and the engine's client of it.

`process.py` is a separate program, standard library only; workers report to `client.py` what has begun and ended.
"""
