"""Sweeps made from a file's text, as the command makes them."""

from pathlib import Path

from gmg_tui.jobs.sweep import plan
from gmg_tui.jobs.sweep.plan import Plan
from gmg_tui.jobs.sweep.settings import from_options, parse_sets, read

SCRIPT = 'script = "sim.py"\n'


def no_check(script: str, module: bool) -> None:
    """Accepts every script."""


def write(folder: Path, text: str) -> str:
    """A file `sweep.toml` with a script and `text`."""
    file = folder / "sweep.toml"
    file.write_text(SCRIPT + text)
    return str(file)


def made(folder: Path, text: str, *set_words: str, **options: object) -> Plan:
    """The sweep of a file with a script and `text`, with the command line's options."""
    path = write(folder, text)
    return plan.make(read(path).overridden_by(from_options(options)), path, parse_sets(set_words), no_check)
