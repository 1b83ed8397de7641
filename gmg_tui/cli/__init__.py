"""The commands, and the modules they share (`config`, `grammar`, `launch`, `prestart`, `printing`, `run_spec`).

Only `gmg_tui.cli.app` calls them; to start fast, it imports only the module of the given command.
"""
