"""Sweeps made from a file's text, as the command makes them."""

from __future__ import annotations

from pathlib import Path

from gmg_tui.sweep import plan
from gmg_tui.sweep.experiments_file import read
from gmg_tui.sweep.overrides import SweepOptions, overrides, sets
from gmg_tui.sweep.plan import Plan

SCRIPT = 'script = "sim.py"\n'


def no_check(script: str, module: bool) -> None:
    """Every script will do."""


def _slots(gpus: str | None, *, cpu: bool) -> list[str]:
    """Of two CPU slots or of four GPUs, of which `gpus` may list some."""
    if cpu:
        return ["cpu0", "cpu1"]
    return [f"gpu{index}" for index in (gpus or "0,1,2,3").split(",") if index]


def write(folder: Path, text: str) -> str:
    """A file `sweep.toml` with a script and `text`."""
    file = folder / "sweep.toml"
    file.write_text(SCRIPT + text)
    return str(file)


def made(
    folder: Path, text: str, *set_words: str, cpu: bool = False, ddp: str | None = None, **options: object
) -> Plan:
    """The sweep of a file with a script and `text`, with the command line's options."""
    path = write(folder, text)
    own = SweepOptions(**{"sets": set_words, **options})  # type: ignore[arg-type]
    return plan.make(
        plan.choose(read(path), own.presets, all_presets=own.all_presets),
        path=path,
        upper=overrides(own, gpus=None, env={}, ddp=ddp),
        sets=sets(own.sets),
        check_script=no_check,
        cpu=cpu,
        slots=lambda gpus: _slots(gpus, cpu=cpu),
    )
