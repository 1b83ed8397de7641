"""All checks, one after the other."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from gmg_tui.commands.doctor import cards, graphics, interpreter, logout, storage, terminal
from gmg_tui.commands.doctor.finding import Finding, warn
from gmg_tui.gpu import egl


def examine(
    python: str,
    environ: Mapping[str, str],
    size: os.terminal_size | None,
    while_waiting: Callable[[str], AbstractContextManager[None]],
) -> Iterator[Finding]:
    """Look at everything, one finding after the other as they are made.

    Args:
        python: The workers' interpreter.
        environ: The environment of the shell.
        size: The terminal's; None where there is none.
        while_waiting: Shows what is waited for, as long as it takes.
    """
    with while_waiting("asking the driver"):
        there = cards.ask()
    yield cards.driver(there)
    if there.error is None:
        yield cards.listed(there)
    if there.whole:
        yield cards.persistence(there)
        yield cards.visible(there, environ)
    yield from _interpreter(python, environ, there, while_waiting)
    with while_waiting("asking EGL for its devices"):
        mapped = asyncio.run(egl.probe())
    yield graphics.mapping(mapped, there)
    yield from _storage(environ)
    yield terminal.screen(environ, size)
    yield terminal.colours(environ)
    yield terminal.encoding(environ)
    yield terminal.multiplexer(environ)
    yield terminal.ssh(environ)
    yield logout.policy(_user(), os.getuid())


def _interpreter(
    python: str,
    environ: Mapping[str, str],
    there: cards.Cards,
    while_waiting: Callable[[str], AbstractContextManager[None]],
) -> Iterator[Finding]:
    with while_waiting(f"asking {python} for its packages"):
        versions = interpreter.ask_versions(python, environ)
    yield interpreter.installed(python, versions)
    if not isinstance(versions, str) and versions.torch is not None:
        with while_waiting("importing torch, which takes seconds"):
            seen = interpreter.ask_torch(python, environ)
        yield interpreter.torch(seen, there)


def _storage(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        mounts = ""  # nothing is taken for a network disk then
    checks: dict[str, Callable[[], Finding]] = {
        "mesh cache": lambda: storage.mesh_cache(environ, mounts),
        "kernel cache": lambda: storage.kernel_cache(environ, mounts),
        "cache locks": lambda: storage.stale_locks(environ),
        "sessions": lambda: storage.sessions_folder(mounts),
        "socket": storage.socket,
    }
    for name, check in checks.items():
        try:
            yield check()
        except OSError as error:  # a network disk whose server has gone
            yield warn(name, f"{error.filename}: {error.strerror}", "see whether that disk is there")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
