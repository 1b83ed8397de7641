"""Readers of lines other than Genesis', which `gmg_tui.genesis.output` reads."""
