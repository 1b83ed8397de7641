"""The commands: a module for each, and what they share (`grammar`, `spec`, `launch`, `prestart`, `messages`).

Only `gmg_tui.cli.app` calls them; it imports the one command that was given, so that starting stays fast.
"""
