"""A sweep's jobs, made from an experiments file and the command line (`settings`) by `plan`."""
