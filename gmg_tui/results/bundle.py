"""`report --bundle`: a zip archive of a session for a bug report, without secrets."""

import errno
import importlib.metadata
import io
import json
import os
import platform
import re
import zipfile
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from heapq import nlargest
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gmg_tui import session as sessions
from gmg_tui.machine.files import open_regular
from gmg_tui.machine.folders import homes
from gmg_tui.model.secrets import FORM, MASK, sounds_secret
from gmg_tui.model.text import safe
from gmg_tui.scripts import interpreter
from gmg_tui.session.store.database import StoreError
from gmg_tui.session.store.reader import open_store

_TAIL_BYTES = 2 << 20
_MAX_LOGS = 50
_MIN_VALUE = 6
"""Shorter values are masked only beside their names: elsewhere they may be common words."""
_PAIR = re.compile(
    r"""(?<![\w-])([\w-]{1,64})(["']?\s{0,8}[=:]\s{0,8})((["'])(?:(?!\4)[^\\\n]|\\.){0,500}\4|["']?[^\s"',;&]+)"""
)
_OPTION = re.compile(r"""(?<![\w-])(--?\w[\w-]{0,64})(["']?,?\s{1,16}["']?)([^\s"',;&-][^\s"',;&]*)""")
_USER = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+")


def bundle(entry: sessions.SessionEntry) -> bytes:
    """Returns the archive: the session's record and summary, the last 2 MB of its newest logs, and versions."""
    hide = _scrubber(_values(entry))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (sessions.RECORD, sessions.SUMMARY, sessions.TUNE):
            with suppress(OSError, msgspec.MsgspecError), _reading(entry.folder / name, entry.folder) as file:
                document = _masked(msgspec.json.decode(file.read()))
                archive.writestr(name, hide(msgspec.json.format(msgspec.json.encode(document)).decode()))
        for path in _logs(entry.folder):
            with suppress(OSError), _reading(path, entry.folder) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                text = file.read(_TAIL_BYTES).decode(errors="replace")
                archive.writestr(str(path.relative_to(entry.folder)), hide(text))
        archive.writestr("versions.json", msgspec.json.format(msgspec.json.encode(_versions(entry))))
    return buffer.getvalue()


def _reading(path: Path, folder: Path) -> BinaryIO:
    """Opens a file of a session for reading. Raises `OSError`, even for a link, which may lead to any file."""
    if safe(path.name) != path.name:
        raise OSError(errno.EINVAL, "not a file of the session", str(path))
    follow = os.O_NOFOLLOW if path.parent != folder else 0
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | follow)
    try:
        return os.fdopen(open_regular(path.name, folder=parent), "rb")
    finally:
        os.close(parent)


def _logs(folder: Path) -> Iterator[Path]:
    yield folder / sessions.ENGINE_LOG
    with suppress(OSError):
        yield from nlargest(_MAX_LOGS, (folder / sessions.LOGS).glob("*.log"), key=lambda path: path.lstat().st_mtime)


def _versions(entry: sessions.SessionEntry) -> dict[str, Any]:
    """Returns the versions of gmg-tui, its libraries and the workers' packages."""
    libraries = {}
    for name in ("click", "google-re2", "msgspec", "nvidia-ml-py", "psutil", "rich", "textual"):
        with suppress(importlib.metadata.PackageNotFoundError):
            libraries[name] = importlib.metadata.version(name)
    return {
        "gmg_tui": interpreter.own_version(),
        "engine": entry.record.session.version,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": libraries,
        "workers": entry.record.session.versions,
    }


def _masked(document: Any) -> Any:
    """Returns a JSON document without the values of variables."""
    if isinstance(document, list):
        return [_masked(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        key: dict.fromkeys(value, MASK) if key in {"env", "extra_env"} and isinstance(value, dict) else _masked(value)
        for key, value in document.items()
    }


def _values(entry: sessions.SessionEntry) -> set[str]:
    """Returns the values of all variables that the session, its jobs and their attempts were given."""
    values = set(entry.record.session.spec.env.values())
    with suppress(OSError, StoreError), open_store(entry.folder / sessions.STORE) as stored:
        for job in stored.each_job():
            values.update(job.env.values())
            for ran in stored.attempts_of(job.number):
                values.update(ran.attempt.env.values())
    return values


def _scrubber(given: Set[str]) -> Callable[[str], str]:
    """Returns a function that masks secrets, the values `given` to workers, and home folders in a text."""
    values = {value for name, value in os.environ.items() if sounds_secret(name)} | given
    values |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in values}  # as in the session's record
    known = sorted((value for value in values if len(value) >= _MIN_VALUE), key=len, reverse=True)
    own = {path for folder in homes() for path in (str(folder), os.path.realpath(folder))} - {"/"}
    longest_first = sorted(own, key=len, reverse=True)
    paths = re.compile("|".join(rf"{re.escape(path)}(?![\w.-])" for path in longest_first) or "(?!)")

    def pair(match: re.Match[str]) -> str:
        quote = match[3][0] if match[3][0] in "\"'" else ""
        end = quote if match[3].endswith(quote) else ""
        return f"{match[1]}{match[2]}{quote}{MASK}{end}" if sounds_secret(match[1]) else match[0]

    def hide(text: str) -> str:
        for value in known:
            text = text.replace(value, MASK)
        return _USER.sub("/home/…", paths.sub("~", re.sub(FORM, MASK, _OPTION.sub(pair, _PAIR.sub(pair, text)))))

    return hide
