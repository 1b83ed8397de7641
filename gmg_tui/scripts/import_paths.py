"""An interpreter's import paths.

The text of this file also runs in other interpreters, any Python 3, without their packages and environment (`-I -S`), as
other users may have made these on a node.
"""

import json
import os
import site
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from itertools import chain, islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

_MAX_ENTRIES = 10_000
"""Maximum entries of a folder to look at."""
_MAX_FILE_BYTES = 1 << 20
_CODE_SUFFIXES = (".py", ".pyc", ".so")


def import_paths(folder: str, module: str, environ: "Mapping[str, str]") -> "list[str]":
    """Returns this interpreter's absolute import paths for code in `folder`; some may be missing.

    These are its own, those of `module`, if it is not empty, which is run in `folder`, and those of linked modules, of `.pth`
    files (see Python's module `site`) and of packages in editable mode (PEP 610). Imports nothing.
    """
    names = "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPATH", "PYTHONPYCACHEPREFIX"
    given = chain.from_iterable(environ[name].split(os.pathsep) for name in names if environ.get(name))
    # A virtual environment's folder.
    own = [str(parent) for parent in Path(sys.executable).parents[1:2] if os.path.exists(parent / "pyvenv.cfg")]
    prefixes = [*own, sys.prefix, sys.exec_prefix, sys.base_prefix]
    sites = [*site.getsitepackages(prefixes), site.getusersitepackages(), *map(os.path.abspath, given)]
    search = list(dict.fromkeys([*sites, *sys.path]))
    installed = list(chain.from_iterable(map(_installed, search)))
    spec = PathFinder.find_spec(module, [folder, *search, *installed]) if module else None
    found = [] if spec is None else spec.submodule_search_locations or [spec.origin or ""]
    links = chain.from_iterable(map(_links, [folder, *search, *installed, *found]))
    return list(
        dict.fromkeys(path for path in (*prefixes, *search, *installed, *found, *links) if path.startswith("/"))
    )


def _links(folder: str) -> "list[str]":
    """Returns the links in a folder that can be imported."""
    links: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        links += [Path(entry.path) for entry in islice(entries, _MAX_ENTRIES) if entry.is_symlink()]
    return [str(link) for link in links if _may_be_code(link)]


def _installed(site: str) -> "list[str]":
    """Returns the paths that `.pth` files and the metadata of packages in a folder name."""
    found = []
    with suppress(OSError):
        for file in islice(Path(site).glob("*.pth"), _MAX_ENTRIES):
            with suppress(OSError):
                lines = map(str.strip, _read(file).splitlines())
                found += [
                    str(Path(site, line))
                    for line in lines
                    if line and not line.startswith(("#", "import ", "import\t"))
                ]
        for file in islice(Path(site).glob("*.dist-info/direct_url.json"), _MAX_ENTRIES):
            with suppress(OSError, ValueError, KeyError, AttributeError):  # not what its name says
                origin = json.loads(_read(file))
                if origin.get("dir_info", {}).get("editable", False):
                    found.append(unquote(urlsplit(origin["url"]).path))
    return found


def _read(path: Path) -> str:
    """Returns the beginning of a regular file: another user may have made a pipe, or a huge one. Raises `OSError`."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)  # merely opening a device may have side effects
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(f"{path} is not a regular file")
        with Path(f"/proc/self/fd/{found}").open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(found)


def _may_be_code(link: Path) -> bool:
    """True if a link can be imported, or may be in time: others may fill a folder that all users can write to."""
    if not link.name.partition(".")[0].isidentifier() or link.suffix not in ("", *_CODE_SUFFIXES):
        return False
    try:
        next_path, target = Path(link.parent, os.readlink(link)), Path(os.path.realpath(link))  # noqa: PTH115
        if any(map(_is_public, [*next_path.parents, *target.parents])):
            return True
        if link.suffix or not os.path.isdir(link):
            return bool(link.suffix) and os.path.exists(link)
        files = chain(link.iterdir(), link.glob("*/*"))  # it may be a namespace package (PEP 420), with packages only
        return any(file.suffix in _CODE_SUFFIXES for file in islice(files, _MAX_ENTRIES))
    except OSError:  # its owner may show it only later
        return True


def _is_public(folder: Path) -> bool:
    """True for a folder where users create files who do not trust each other (see `ownership.is_public_folder`)."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH or (mode & stat.S_ISVTX and mode & stat.S_IWGRP))
