"""The log of a worker, or of the ranks of a group: which lines are kept, how a line is drawn, and the widget."""
