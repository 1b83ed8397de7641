"""A process whose first thread ends, then prints `up` and sleeps; with `deaf` it ignores SIGINT and SIGTERM.

Ends at once unless its first argument is `1`, so that other jobs of a sweep do.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def started(**options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Such a process, killed at the end."""
    with subprocess.Popen([sys.executable, __file__, "1"], stdout=subprocess.PIPE, **options) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


def _stay() -> None:
    while Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    print("up", flush=True)
    time.sleep(600)


if __name__ == "__main__" and sys.argv[1] == "1":
    for number in (signal.SIGINT, signal.SIGTERM) if "deaf" in sys.argv else ():
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_stay).start()
    ctypes.CDLL(None).pthread_exit(None)
