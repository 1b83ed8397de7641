"""The search for the best value of one number: which trials to run next, and what they show.

Pure: it starts nothing and reads no clock; `engine/scheduling` runs the trials, `report` and `ui` show the answer.
"""
