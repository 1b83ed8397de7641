"""What a worker prints, understood: phases, rates, progress, warnings, and the reason of a failure.

The engine's attempts feed `reader.py`; nothing here knows of processes or of the screen.
"""
