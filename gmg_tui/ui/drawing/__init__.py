"""Drawing as pure functions: from the model's types to rows of cells, without an app or a widget.

Widgets and screens call these; they know the UI's state and its histories, and nothing of Textual but its strips.
"""
