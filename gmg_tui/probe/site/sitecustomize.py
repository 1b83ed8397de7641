"""Python imports this as it starts in a worker: it starts the probe, and has a rank write its stacks on a signal.

The `sitecustomize` that this one hides runs after it.
"""

import contextlib
import os
import sys


def _start():
    if "GMG_PROBE_DIR" in os.environ:
        import gmg_probe

        gmg_probe.start(os.environ["GMG_PROBE_DIR"])
    if "GMG_STACK_FILE" in os.environ:  # write the stacks of all threads to it when the signal comes
        import faulthandler

        file = os.open(os.environ["GMG_STACK_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        faulthandler.register(int(os.environ["GMG_STACK_SIGNAL"]), file=file, all_threads=True, chain=False)


def _run_next():
    """Run the `sitecustomize` that is next on the path, as if this one were not there."""
    from importlib import util
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = util.module_from_spec(spec)
        spec.loader.exec_module(module)


with contextlib.suppress(Exception):  # a script runs as well without
    _start()
_run_next()
