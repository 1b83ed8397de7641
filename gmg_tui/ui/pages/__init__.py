"""The pages over the main screen: a title, a table, what is selected in it, and the keys."""
