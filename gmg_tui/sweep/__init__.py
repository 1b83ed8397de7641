"""A sweep's batches and jobs, made from an experiments file (`experiments_file`) and the command line (`overrides`).

The commands call `plan`, which combines both, and `dry_run`, which lists the jobs. An invalid value is a `GmgError` of
one line that names the file or option, the key, and what would be right.
"""
