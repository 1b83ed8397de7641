"""Starts the probe in a worker's Python, and makes it write its stacks on a signal.

Then runs the `sitecustomize` that this one hides.
"""

import contextlib
import os
import sys


def _start():
    folder = os.environ.get("GMG_PROBE_DIR")
    if folder:
        import faulthandler
        import signal

        import gmg_probe
        import gmg_reports

        gmg_probe.start(folder, gmg_reports)
        stacks = open(gmg_probe.open_file(gmg_probe.STACKS, os.O_WRONLY | os.O_APPEND), "ab")  # noqa: SIM115 - open until the end
        signal.signal(gmg_probe.STACK_SIGNAL, signal.SIG_IGN)  # restored at Python's end, where the default would kill
        faulthandler.register(gmg_probe.STACK_SIGNAL, file=stacks, all_threads=True, chain=False)


def _run_next():
    """Runs the next `sitecustomize` on the path, as if this one did not exist."""
    from importlib import util
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = util.module_from_spec(spec)
        spec.loader.exec_module(module)


with contextlib.suppress(Exception):  # a script runs without the probe too
    _start()
_run_next()
