"""A worker that does nothing but print, as fast as its lines are taken.

With `--block 1` each line is a `print` of its own, as in a script; with more, so many prepared lines are one write, and
the reader, not Python's formatting, is what limits it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

FORMS = {
    "plain": "line {number:09d} of a script that prints one line after another",
    "fps": "\x1b[38;5;159m[Genesis] [12:00:00] [INFO] Running at \x1b[38;5;121m{number:,}.00\x1b[0m\x1b[38;5;159m FPS "
    "(\x1b[38;5;121m5859.38\x1b[0m\x1b[38;5;159m FPS per env, \x1b[38;5;121m4096\x1b[0m\x1b[38;5;159m envs).\x1b[0m",
}
"""Lines by name: what a script may print, and Genesis's own progress line. `{number}` counts from 1,000,000."""
FIRST = 1_000_000


def lines(form: str, start: int, count: int) -> list[str]:
    """The next `count` lines, without their ends."""
    return [FORMS[form].format(number=FIRST + number) for number in range(start, start + count)]


def write_all(data: bytes) -> None:
    """Write `data` to standard output."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def main() -> None:
    """Print, and say in a file how long it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--form", choices=tuple(FORMS), default="fps")
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--block", type=int, default=1, help="lines in one write")
    parser.add_argument("--took", type=Path, required=True, help="takes the seconds of the printing alone")
    parser.add_argument("--wait", type=Path, help="begin to print when this file is there")
    parser.add_argument("--stay", action="store_true", help="do not end after the last line")
    options = parser.parse_args()
    while options.wait and not options.wait.exists():
        time.sleep(0.01)
    # One block is prepared and repeated, so that preparing takes no part in the time.
    block = lines(options.form, 0, options.block)
    data = ("\n".join(block) + "\n").encode()
    start = time.monotonic()
    if options.block == 1:
        for _ in range(options.lines):
            print(block[0])
    else:
        for _ in range(options.lines // options.block):
            write_all(data)
    temporary = options.took.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{time.monotonic() - start}\n")
    temporary.replace(options.took)
    while options.stay:
        time.sleep(3600)


if __name__ == "__main__":
    main()
