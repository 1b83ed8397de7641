"""The paths from which an interpreter imports. The text of this file also runs in the workers' interpreter, any Python 3."""

import json
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from itertools import chain, islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

_MAX_ENTRIES = 10_000
"""Maximum entries of a folder to look at."""
_CODE_SUFFIXES = (".py", ".pyc", ".so")


def import_paths(folder: str, module: str) -> "list[str]":
    """Returns the absolute paths from which this interpreter imports, for code in `folder`; some may be missing.

    These are its own, those of `module`, if it is not empty, which is run in `folder`, and those of linked modules, of `.pth`
    files (see Python's module `site`) and of packages in editable mode (PEP 610). Imports nothing.
    """
    paths = [sys.base_prefix, *sys.path]
    spec = PathFinder.find_spec(module, [folder, *sys.path]) if module else None
    if spec is not None:
        paths += spec.submodule_search_locations or [spec.origin or ""]
    paths += chain.from_iterable(map(_links, [folder, *sys.path]))
    paths += chain.from_iterable(map(_installed, filter(None, sys.path)))
    return list(dict.fromkeys(path for path in paths if path.startswith("/")))


def _links(folder: str) -> "list[str]":
    """Returns the links in a folder that can be imported."""
    with suppress(OSError), os.scandir(folder) as entries:
        links = [Path(entry.path) for entry in islice(entries, _MAX_ENTRIES) if entry.is_symlink()]
        return [str(link) for link in links if _may_be_code(link)]
    return []


def _installed(site: str) -> "list[str]":
    """Returns the paths that `.pth` files and the metadata of packages in a folder name."""
    found = []
    with suppress(OSError):
        for file in Path(site).glob("*.pth"):
            with suppress(OSError, ValueError):  # not readable text
                lines = (line.strip() for line in file.read_text("utf-8").splitlines())
                found += [
                    str(Path(site, line))
                    for line in lines
                    if line and not line.startswith(("#", "import ", "import\t"))
                ]
        for file in Path(site).glob("*.dist-info/direct_url.json"):
            with suppress(OSError, ValueError, KeyError, AttributeError):  # not what its name says
                origin = json.loads(file.read_text("utf-8"))
                if origin.get("dir_info", {}).get("editable", False):
                    found.append(unquote(urlsplit(origin["url"]).path))
    return found


def _may_be_code(link: Path) -> bool:
    """True if a link can be imported, or leads nowhere: its target may exist on another machine."""
    if link.is_dir():
        return any(file.suffix in _CODE_SUFFIXES for file in islice(link.iterdir(), _MAX_ENTRIES))
    return link.suffix in _CODE_SUFFIXES or not link.exists()
