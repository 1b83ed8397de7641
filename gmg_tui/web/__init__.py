"""The screen in a browser: a web server, and for each page that is open a process that draws the screen for it."""
