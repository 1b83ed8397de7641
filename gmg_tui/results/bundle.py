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
from gmg_tui.model.secrets import KNOWN_FORMS, MASK, sounds_secret
from gmg_tui.model.text import safe
from gmg_tui.scripts import interpreter
from gmg_tui.session.store.database import StoreError
from gmg_tui.session.store.reader import open_store

_MAX_DOCUMENT_BYTES, _MAX_LOG_BYTES = 64 << 20, 2 << 20
_MAX_LOGS = 50
_MAX_VALUE_BYTES = 128 << 10
"""Maximum length of an environment variable on Linux (MAX_ARG_STRLEN, execve(2))."""
_MIN_VALUE_LENGTH = 6
"""Minimum length of a value to mask anywhere; shorter ones may be common words: mask only those beside their names."""
_PAIR = re.compile(
    r"""(?<![\w-])([\w-]{1,64})(["']?\]?\s{0,8}(?:=|:(?!//))\s{0,8})(\$?(["'])(?:(?!\4)[^\\\n]|\\.){0,500}\4|["']?[^\s"',;&]+)"""
)
_OPTION = re.compile(r"""(?<![\w-])(--?\w[\w-]{0,64})(["']?,?\s{1,16}["']?)([^\s"',;&-][^\s"',;&]*)""")
_USER_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+")


def bundle(entry: sessions.SessionEntry) -> bytes:
    """Returns the archive: the session's record and results, the last 2 MiB of each of its newest logs, and versions."""
    scrub = _scrubber(_variable_values(entry))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (sessions.RECORD, sessions.SUMMARY, sessions.TUNE):
            with (
                suppress(OSError, msgspec.MsgspecError, RecursionError),
                _open_file(entry.folder / name, entry.folder) as file,
            ):
                document = _mask_env(msgspec.json.decode(file.read(_MAX_DOCUMENT_BYTES)))
                archive.writestr(name, scrub(msgspec.json.format(msgspec.json.encode(document)).decode()))
        for path in _logs(entry.folder):
            with suppress(OSError), _open_file(path, entry.folder) as file:
                start = max(0, os.fstat(file.fileno()).st_size - _MAX_LOG_BYTES)
                skipped = min(start, _MAX_VALUE_BYTES)  # so that a value that begins earlier is masked
                file.seek(start - skipped)
                text = scrub(file.read(_MAX_LOG_BYTES + skipped).decode(errors="replace"))
                stem = scrub(path.stem).replace(MASK, "masked")  # a job's name contains its values
                archive.writestr(str(path.relative_to(entry.folder).with_name(stem + path.suffix)), text[skipped:])
        archive.writestr("versions.json", msgspec.json.format(msgspec.json.encode(_versions(entry))))
    return buffer.getvalue()


def _open_file(path: Path, folder: Path) -> BinaryIO:
    """Opens a session's file for reading. Raises `OSError`, also for a symbolic link, which could point to any file."""
    if safe(path.name) != path.name:
        raise OSError(errno.EINVAL, "not a file of the session", str(path))
    nofollow = os.O_NOFOLLOW if path.parent != folder else 0
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | nofollow)
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


def _mask_env(document: Any) -> Any:
    """Returns a JSON document with the values of environment variables, and the commands of `--notify`, masked."""
    if isinstance(document, list):
        return [_mask_env(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {key: _mask_field(key, value) for key, value in document.items()}


def _mask_field(key: str, value: Any) -> Any:
    if key in {"env", "extra_env"} and isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    if key == "notify" and isinstance(value, list):  # the address of a webhook is a secret
        return [MASK for _ in value]
    return _mask_env(value)


def _variable_values(entry: sessions.SessionEntry) -> set[str]:
    """Returns the values of all environment variables given to the session, its jobs and their attempts.

    Includes the texts between the placeholders of a value, which workers see filled in.
    """
    values = set(entry.record.session.spec.env.values())
    with suppress(OSError, StoreError), open_store(entry.folder / sessions.STORE) as stored:
        for job in stored.iter_jobs():
            values.update(job.env.values())
            for run in stored.attempts_of(job.number):
                values.update(run.attempt.env.values())
    return values.union(*(re.split(r"\{[^{}]*\}", value) for value in values))


def _scrubber(variable_values: Set[str]) -> Callable[[str], str]:
    """Returns a function that masks secrets, the values of variables, and home folders in a text."""
    values = {value for name, value in os.environ.items() if sounds_secret(name)} | variable_values
    values |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in values}  # as in the session's record
    masked = sorted((value for value in values if len(value) >= _MIN_VALUE_LENGTH), key=len, reverse=True)
    home_paths = {path for folder in homes() for path in (str(folder), os.path.realpath(folder))} - {"/"}
    longest_first = sorted(home_paths, key=len, reverse=True)
    home = re.compile("|".join(rf"{re.escape(path)}(?![\w.-])" for path in longest_first) or "(?!)")

    def mask_pair(match: re.Match[str]) -> str:
        quote = match[3][0] if match[3][0] in "\"'" else ""
        end = quote if match[3].endswith(quote) else ""
        return f"{match[1]}{match[2]}{quote}{MASK}{end}" if sounds_secret(match[1]) else match[0]

    def scrub(text: str) -> str:
        for value in masked:
            text = text.replace(value, MASK)
        text = _OPTION.sub(mask_pair, _PAIR.sub(mask_pair, re.sub(KNOWN_FORMS, MASK, text)))
        return _USER_HOME.sub("/home/…", home.sub("~", text))

    return scrub
