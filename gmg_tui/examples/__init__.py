"""Genesis scripts that come with gmg-tui; they are run as programs and never imported."""
