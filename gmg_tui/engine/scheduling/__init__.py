"""Schedulers decide which job runs on which slot: one script on every slot, a sweep's queue, or a tuning's search."""
