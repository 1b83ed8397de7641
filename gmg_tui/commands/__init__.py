"""What the commands do, one subject in each module; `gmg_tui.cli` reads their arguments and imports what is asked for."""
