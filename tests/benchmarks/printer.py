"""A worker that only prints progress lines, as fast as they are read: `printer.py LINES GATE`; then it stays.

It begins when the file GATE exists. A prepared block of lines is one write, so that not Python's formatting but the reader
limits it.
"""

import os
import signal
import sys
import time
from pathlib import Path

LINE = (
    "\x1b[38;5;159m[Genesis] [12:00:00] [INFO] Running at \x1b[38;5;121m1,000,000.00\x1b[0m\x1b[38;5;159m FPS "
    "(\x1b[38;5;121m5859.38\x1b[0m\x1b[38;5;159m FPS per env, \x1b[38;5;121m4096\x1b[0m\x1b[38;5;159m envs).\x1b[0m\n"
)
BLOCK = 500


def main(lines: int, gate: Path) -> None:
    while not gate.exists():
        time.sleep(0.01)
    block = (LINE * BLOCK).encode()
    for _ in range(lines // BLOCK):
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest) :]
    signal.pause()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
