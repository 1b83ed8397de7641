"""A session's GPUs: their indices at this moment, the newest samples, and what an attempt takes of their memory and energy.

Nothing here depends on processes or jobs; `workers` and the supervisor use it.
"""
