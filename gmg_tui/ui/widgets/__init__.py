"""The widgets of the main screen: each puts the rows that `drawing` makes on its part of the terminal.

Screens compose them; a widget knows no screen and asks the engine for nothing.
"""
