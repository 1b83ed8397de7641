"""The log of a worker: the lines kept, their drawing, and the widget."""
