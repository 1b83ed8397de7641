"""Pages over the main screen: a title, a table, its selected row, and the keys."""
