"""The Python stacks of the ranks of a group, side by side."""
