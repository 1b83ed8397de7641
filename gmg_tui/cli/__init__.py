"""The commands: a module for each, and shared ones (`config`, `grammar`, `launch`, `prestart`, `printing`, `run_spec`).

Only `gmg_tui.cli.app` calls them; it imports the one command that was given, so that starting stays fast.
"""
