"""What the options of `run` tell the engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from gmg_tui import cli
from gmg_tui.commands import run
from gmg_tui.errors import GmgError
from gmg_tui.model import RestartMode, RunSpec, StartMode, Visible

_SUPERVISION = (
    "keep_slurm_env",
    "visible",
    "interval_s",
    "start",
    "restart",
    "max_restarts",
    "stuck_after_s",
    "restart_stuck",
    "sigint_wait_s",
    "sigterm_wait_s",
    "log_max_bytes",
)


def _told(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, object]:
    """What an engine would be told by this command line, of how it looks after its workers."""
    specs: list[RunSpec] = []

    def launch(spec: RunSpec, **_: object) -> NoReturn:
        specs.append(spec)
        raise GmgError("far enough")

    monkeypatch.setattr(run, "launch", launch)
    with pytest.raises(SystemExit):
        cli.main([*words, "--cpu", "1", "--headless", "--python", sys.executable, str(Path(__file__))])
    return {name: getattr(specs[0], name) for name in _SUPERVISION}


def test_what_is_not_given_is_left_as_the_model_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(RunSpec)}
    assert _told(monkeypatch) == {name: defaults[name] for name in _SUPERVISION}


def test_each_option_reaches_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "--interval 2 --start staggered --restart failure --max-restarts 7 --stuck-after 90 --restart-stuck "
        "--sigint-wait 40 --sigterm-wait 0.5 --keep-slurm-env --visible uuid --log-max 1.5GiB"
    )
    assert _told(monkeypatch, *words.split()) == {
        "keep_slurm_env": True,
        "visible": Visible.UUID,
        "interval_s": 2.0,
        "start": StartMode.STAGGERED,
        "restart": RestartMode.FAILURE,
        "max_restarts": 7,
        "stuck_after_s": 90.0,
        "restart_stuck": True,
        "sigint_wait_s": 40.0,
        "sigterm_wait_s": 0.5,
        "log_max_bytes": 3 << 29,
    }


@pytest.mark.parametrize(("size", "most_bytes"), [("1M", 1 << 20), ("2g", 2 << 30), ("0.5T", 1 << 39), ("none", None)])
def test_how_the_size_of_a_log_may_be_written(
    monkeypatch: pytest.MonkeyPatch, size: str, most_bytes: int | None
) -> None:
    assert _told(monkeypatch, "--log-max", size)["log_max_bytes"] == most_bytes
