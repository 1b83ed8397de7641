"""Readers of all lines but Genesis', which `gmg_tui.scripts.genesis.output` reads."""
