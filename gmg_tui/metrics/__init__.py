"""What running sessions do, as metrics for Prometheus: a client of their engines like any other.

`following` keeps the newest snapshots, `collector` makes metrics of them (`names`, `dcgm`), `listening` and `textfile`
hand them out.
"""
