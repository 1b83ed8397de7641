"""What a session did, read from its store: tables for the terminal, a page for the browser, CSV and JSON.

`data` collects and orders one session, `compare` puts several beside each other; `text`, `page` and `charts` render both.
The commands call it, also while an engine writes the store.
"""
