"""Hostile output, and a script that prints it: `python hostile.py KIND SIZE GATE`.

A third comes at once, the rest when the file GATE is there; then the script waits for SIGINT.
"""

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 16


def lines(count: int) -> Iterator[bytes]:
    for first in range(0, count, 1000):
        yield b"".join(b"line %d of many\n" % number for number in range(first, min(first + 1000, count)))


def long(size: int) -> Iterator[bytes]:
    for first in range(0, size, _CHUNK):
        yield b"x" * min(_CHUNK, size - first)
    yield b"\n"


def noise(size: int) -> Iterator[bytes]:
    source = random.Random(11)
    for first in range(0, size, _CHUNK):
        yield source.randbytes(min(_CHUNK, size - first))


def tabs(size: int) -> Iterator[bytes]:
    """Lines of nothing but tabs, which are wide where they are shown."""
    for _ in range(0, size, 8192):
        yield b"\t" * 8191 + b"\n"


KINDS = {"lines": lines, "long": long, "noise": noise, "tabs": tabs}


def digest(kind: str, size: int) -> str:
    """The SHA-256 of all that the script prints."""
    whole = hashlib.sha256()
    for chunk in KINDS[kind](size):
        whole.update(chunk)
    return whole.hexdigest()


def sequences() -> Iterator[bytes]:
    """Every kind of sequence that a terminal may act on or answer, and texts that a markup reader may stumble over."""
    yield from (bytes((code,)) for code in range(32) if code not in b"\n")
    yield from (b"\x1b" + bytes((code,)) for code in range(0x20, 0x7F) if code not in b"[]PX^_")
    for prefix in (b"", b"?", b">", b"=", b"<"):
        for middle in (b"", b" ", b"$", b'"', b"!", b"'", b"*"):
            yield from (b"\x1b[" + prefix + b"1;2" + middle + bytes((final,)) for final in range(0x40, 0x7F))
    yield from (b"\x1b]%d;stolen\x07" % number for number in (*range(20), 50, 51, 66, 99, *range(104, 120), 777, 1337))
    yield b"\x1b]52;c;c3RvbGVu\x07"
    yield b"\x1b]52;c;?\x1b\\"
    yield b"\x1b]8;;file:///etc/passwd\x1b\\stolen\x1b]8;;\x1b\\"
    yield b"\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1bPq#0;2;0;0;0#0~~\x1b\\"
    yield b"\x1b_Gf=24,s=1,v=1;AAAA\x1b\\\x1b^private\x1b\\\x1bXsos\x1b\\"
    yield b"\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?2026$p\x1b[18t\x1b[21t\x1b[?u\x1bZ\x05"
    yield b"\x1b]0;stolen without an end"
    yield b"\x1bP$qm without an end"
    yield b"\x1b[31"
    yield b"\x1b"
    yield from ("\u009b31m \u009d0;stolen\u009c \u0090$qm\u009c \u0084\u0085\u008d".encode(), bytes(range(0x80, 0xA0)))
    yield "\u202egnp.exe\u202c \u200b\u2066\ufeff \U000e0041 e\u0301\u0301\u0301 \U0001f469\u200d\U0001f680 \uff21".encode()
    yield b"[/] [/bold] [bold [@click=app.bell()]stolen[/] [link=file:///etc/passwd]x[/link] \\[ [[ ]] [#ff0000] $accent"


def escapes() -> Iterator[bytes]:
    """All sequences as lines, and then where they would be read out of a line and shown elsewhere."""
    for sequence in sequences():
        yield b"before " + sequence + b" after\n"
    evil = b"\x1b]52;c;c3RvbGVu\x07\x1b[2J\x1b]0;stolen\x07\x1b[6n[/] [bold"
    head = b"[Genesis] [12:00:00] [INFO] "
    yield head + b"Running on [" + evil + b"] with backend gs.cpu. Device memory: 1.00 GB.\n"
    yield head + b"Genesis initialized. version: " + evil + b", theme: dark\n"
    yield head + b"Compiling simulation kernels...\n"
    yield b"\r 50%|" + evil + b"| 5/10 [00:01<00:01,  5.00" + evil + b"/s]\n"
    yield head + b"Running at 1,000.00 FPS (100.00 FPS per env, 10 envs).\n"
    yield evil + b"\rEND OF NOISE" + evil + b"\n"


def wait_for(path: str) -> None:
    """Return when there is a file at `path`."""
    while not Path(path).exists():
        time.sleep(0.02)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def main(kind: str, size: str, gate: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a traceback, which would be output too
    if kind == "escapes":
        _write(b"".join(escapes()))
        wait_for(gate)
        raise ValueError("\x1b]52;c;c3RvbGVu\x07\x1b[2Jthe end\x1b]0;stolen\x07 [/] [bold")
    count = int(size)
    third = sum(1 for _ in KINDS[kind](count)) // 3
    for number, chunk in enumerate(KINDS[kind](count)):
        if number == third:
            wait_for(gate)
        _write(chunk)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
