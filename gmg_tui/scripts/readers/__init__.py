"""Readers of lines other than Genesis', which `gmg_tui.scripts.genesis.output` reads."""
