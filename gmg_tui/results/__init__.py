"""A session's results for other programs (`files`), and the columns and words of jobs and tunings for people."""
