"""The search for the best value of one number: the next trials, and the answer.

It starts no processes and reads no clock: `engine/scheduling` runs the trials; `results` and `ui` show the answer.
"""
