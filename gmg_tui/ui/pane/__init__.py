"""The lower pane of the main screen: tabs of the selected worker, and of the session."""
