"""The small process that ends the workers of an engine which was killed, and the engine's client of it.

`process.py` is a program of its own, standard library only; workers tell `client.py` what has begun and ended.
"""
