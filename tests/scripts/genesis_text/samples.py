"""Real output of Genesis 1.4.5, with the time of each line."""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "samples" / "genesis-1.4.5"
LOGS = sorted(FOLDER.glob("*.log"))

_CLOCK = re.compile(rb"\[(\d\d):(\d\d):(\d\d)\]")


def read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def timed(name: str) -> Iterator[tuple[bytes, float]]:
    """Each line, with its end, and the seconds since the first one."""
    first = None
    for line in read(name).splitlines(keepends=True):
        match = _CLOCK.search(line)
        assert match is not None
        now = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
        first = now if first is None else first
        yield line, float(now - first)


MINT, BLUE, RESET = "\x1b[38;5;121m", "\x1b[38;5;159m", "\x1b[0m"


def fps_line(total: float, n_envs: int = 0) -> bytes:
    def mint(text: str) -> str:
        return f"{MINT}{text}{RESET}{BLUE}"

    text = (
        f"{mint(f'{total:,.2f}')} FPS ({mint(f'{total / n_envs:.2f}')} FPS per env, {mint(str(n_envs))} envs)."
        if n_envs
        else f"{mint(f'{total:.2f}')} FPS."
    )
    return f"{BLUE}[Genesis] [06:58:16] [INFO] Running at {text}{RESET}\n".encode()


def logged(text: str, level: str = "INFO") -> bytes:
    return f"{BLUE}[Genesis] [06:58:16] [{level}] {text}{RESET}\n".encode()
