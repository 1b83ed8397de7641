"""Reads what scripts print beside Genesis' own lines, which `gmg_tui.genesis.output` reads."""
