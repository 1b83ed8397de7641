"""Genesis scripts that ship with gmg-tui; they run as programs and are never imported."""
