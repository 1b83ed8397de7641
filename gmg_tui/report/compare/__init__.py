"""Sessions beside each other: what differs in how they ran, and what their rates became.

`sides` reads a session, `settings` names what it ran with, `comparison` puts them together, `remarks` says where they
cannot be compared; `text`, `files` and `page` draw. Changes are against the first session.
"""
