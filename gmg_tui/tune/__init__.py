"""The search for the best value of one number: which trials to run next, and what they say.

Pure: it starts nothing and knows no clock; `engine/scheduling` runs the trials, `report` and `ui` show the answer.
"""
