"""What stands between Textual and the terminal: fewer bytes out, keys in their order, an end when the line is lost.

The app and the bases of screens use these; nothing here knows what is shown.
"""
