"""The screen in a browser: textual-serve on localhost, and a `gmg-tui attach` for each open page."""
