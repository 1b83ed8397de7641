"""The arrows between the parts at run time, in a fresh interpreter: what is imported by what."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gmg_tui


def _loaded(module: str) -> set[str]:
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "never"),
    [
        (
            "gmg_tui.engine.__main__",
            ("textual", "rich", "click", "gmg_tui.ui", "gmg_tui.session.client", "re2", "torch", "genesis"),
        ),
        ("gmg_tui.cli.run", ("textual", "rich", "asyncio", "pynvml", "psutil", "re2")),
        ("gmg_tui.cli.app", ("textual", "rich", "asyncio", "pynvml", "psutil", "re2", "tomllib", "torch", "genesis")),
        ("gmg_tui.ui.app", ("gmg_tui.engine", "pynvml", "psutil", "torch", "genesis")),
        ("gmg_tui.headless", ("textual", "rich", "gmg_tui.engine", "pynvml", "torch", "genesis")),
    ],
)
def test_a_package_does_not_import_forbidden_modules(module: str, never: tuple[str, ...]) -> None:
    loaded = _loaded(module)
    assert module.removesuffix(".__main__") in loaded
    assert loaded.isdisjoint(never)


def test_a_start_without_a_settings_file_does_not_import_its_parser() -> None:
    code = "import sys; from gmg_tui.cli import grammar; grammar.settings_of('run'); print('\\n'.join(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "gmg_tui.cli.config" in loaded
    assert loaded.isdisjoint({"tomllib", "gmg_tui.ui", "msgspec"})


def test_no_file_is_too_long() -> None:
    root = Path(gmg_tui.__file__).parents[1]
    limits = {"gmg_tui": 400, "tests": 500, "screenshots": 500}
    files = [(file, limit) for folder, limit in limits.items() for file in (root / folder).rglob("*.py")]
    assert len(files) > 500
    assert [str(file) for file, limit in files if len(file.read_text("utf-8").splitlines()) > limit] == []


def test_no_path_is_tested_with_a_method_that_raises() -> None:
    """Before Python 3.14, pathlib's raise `PermissionError` in a folder that another user has closed; `os.path`'s do not."""
    method = re.compile(r"\.(exists|is_dir|is_file)\(\)")
    files = Path(gmg_tui.__file__).parent.rglob("*.py")
    assert [str(file) for file in files if method.search(file.read_text("utf-8"))] == []


def test_architecture_is_short_and_names_only_existing_paths() -> None:
    root = Path(gmg_tui.__file__).parent
    text = (root / "ARCHITECTURE.md").read_text("utf-8")
    paths = re.findall(r"`([\w/]+(?:/|\.(?:py|toml|txt)))`", text)
    assert len(text.encode()) <= 7000
    assert len(paths) > 40
    assert [path for path in paths if not (root / path).exists() and path != "pyproject.toml"] == []


def test_contributing_names_only_existing_paths() -> None:
    root = Path(gmg_tui.__file__).parents[1]
    paths = re.findall(r"`((?:gmg_tui|tests|\.ci)/[\w/.]+)`", (root / ".github/CONTRIBUTING.md").read_text("utf-8"))
    assert len(paths) > 15
    assert [path for path in paths if not (root / path).exists()] == []
