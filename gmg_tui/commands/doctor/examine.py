"""Runs all checks, one after the other."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from gmg_tui.commands.doctor import gpus, graphics, health, interpreter, logout, outer_task, storage, terminal
from gmg_tui.commands.doctor.finding import Finding, warn
from gmg_tui.gpu import egl

_Waiting = Callable[[str], AbstractContextManager[None]]


def examine(
    python: str,
    environ: Mapping[str, str],
    size: os.terminal_size | None,
    while_waiting: _Waiting,
    *,
    with_screen: bool = True,
) -> Iterator[Finding]:
    """Run all checks, and yield each finding as it is made; `while_waiting` shows a message while one takes time.

    Without `with_screen` the terminal is not looked at, which is another machine's.
    """
    with while_waiting("asking the driver"):
        nvml = gpus.ask()
    yield gpus.driver(nvml)
    if nvml.error is None:
        yield gpus.listed(nvml)
    if nvml.whole:
        yield health.gpus(nvml)
        yield gpus.persistence(nvml)
        yield gpus.visible(nvml, environ)
        if (shared := health.mps(environ)) is not None:
            yield shared
    yield from _interpreter(python, environ, nvml, while_waiting)
    with while_waiting("asking EGL for its devices"):
        mapped = asyncio.run(egl.probe())
    yield graphics.mapping(mapped, nvml)
    yield from _storage(environ)
    if with_screen:
        yield terminal.screen(environ, size)
        yield terminal.colours(environ)
        yield terminal.encoding(environ)
        yield terminal.multiplexer(environ)
        yield terminal.ssh(environ)
    yield outer_task.variables(environ)
    yield logout.policy(_user(), os.getuid())


def _interpreter(
    python: str, environ: Mapping[str, str], nvml: gpus.NvmlView, while_waiting: _Waiting
) -> Iterator[Finding]:
    with while_waiting(f"asking {python} for its packages"):
        versions = interpreter.ask_versions(python, environ)
    yield interpreter.installed(python, versions)
    if not isinstance(versions, str) and versions.torch is not None:
        with while_waiting("importing torch, which takes seconds"):
            seen = interpreter.ask_torch(python, environ)
        yield interpreter.torch(seen, nvml)
        yield interpreter.ranks()


def _storage(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        mounts = ""  # no file system counts as a network one then
    checks: dict[str, Callable[[], Finding]] = {
        "mesh cache": lambda: storage.cache("mesh cache", environ, mounts),
        "kernel cache": lambda: storage.cache("kernel cache", environ, mounts),
        "cache locks": lambda: storage.stale_locks(environ),
        "sessions": lambda: storage.sessions_folder(mounts),
        "socket": storage.socket,
    }
    for name, check in checks.items():
        try:
            yield check()
        except OSError as error:  # a network disk whose server is gone
            yield warn(name, f"{error.filename}: {error.strerror}", "check whether that disk is available")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
