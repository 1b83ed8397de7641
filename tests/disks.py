"""File systems of a test's own: mounted, filled."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def as_root(*command: str) -> None:
    """Run a program that needs root and a kernel that permits it; skip the test where it is not permitted."""
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not installed")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{command[0]}: {error.stderr.strip()}")


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a file system on a folder."""
    as_root("mount", *options, str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write a file until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
