"""Python imports this first in each rank of a group: on a signal its stacks are written to a file.

It runs in the worker's interpreter, which may have nothing but the standard library. The `sitecustomize` that this one
hides runs after it.
"""

import faulthandler
import os
import sys
from importlib import util
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - at each start of Python: pathlib costs 5 ms


def _listen() -> None:
    """Write the stacks of all threads when the signal comes, in the process that was started with the file."""
    path, number = os.environ.get("GMG_STACK_FILE"), os.environ.get("GMG_STACK_SIGNAL")
    if path is None or number is None:
        return
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        faulthandler.register(int(number), file=file, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        return  # a script runs as well without


def _run_next() -> None:
    """Run the `sitecustomize` that is next on the path, as if this one were not there."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_listen()
_run_next()
