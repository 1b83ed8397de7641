"""Writes the metrics to a file, as node_exporter's textfile collector reads them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from gmg_tui.errors import GmgError

EVERY_S = 15.0
"""How often the file is written."""
_MODE = 0o644
"""node_exporter runs as a user of its own."""


def check(file: str) -> Path:
    """The absolute path of the file, whose folder must be there. Raises `GmgError`."""
    path = Path(file).absolute()
    if not file or path.is_dir():
        raise GmgError(f"--textfile {file}: give the path of a file")
    if path.exists() and not path.is_file():
        raise GmgError(f"--textfile {file}: that is no regular file; give the path of another one")
    if not path.parent.is_dir():
        raise GmgError(f"--textfile {file}: there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GmgError(f"--textfile {file}: the folder {path.parent} is not writable; choose another one", 1)
    return path


class Textfile:
    """The file at `path`, in which `metrics` are told."""

    def __init__(self, path: Path, metrics: Collector) -> None:
        self._path = path
        self._metrics = metrics

    async def run(self) -> None:
        """Write the file until cancelled, and remove it then: what stays in it would look like the present.

        Raises:
            GmgError: It cannot be written.
        """
        try:
            while True:
                await asyncio.to_thread(self.write)
                await asyncio.sleep(EVERY_S)
        finally:
            with suppress(OSError):
                self._path.unlink()

    def write(self) -> None:
        """Replace the file at once: a scrape sees the old one or all of the other. Raises `GmgError`."""
        text = generate_latest(self._metrics)
        try:
            # Its name does not end in .prom, and node_exporter passes it over. A power cut needs no old file: no fsync.
            handle, temporary = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text)
                    os.fchmod(file.fileno(), _MODE)
                Path(temporary).replace(self._path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise GmgError(f"--textfile {self._path}: cannot be written: {error.strerror}", 1) from error
