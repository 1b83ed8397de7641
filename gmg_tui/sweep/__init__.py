"""The experiments of a sweep: from a TOML file and the command line to groups of jobs.

`file` reads the file, `overlay` what the command line says instead, `plan` puts both together and makes the jobs, and
`listing` writes them down. Whatever cannot be meant so is a `GmgError` of one line, which names the file (or the
option), the key, and what would be right.
"""
