"""What the tests of the command line share: the command line in this process, and the end of every engine."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.cli import launch
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import JobRecord, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.session import STORE
from gmg_tui.session.store import reader
from tests.cli.scripted import Done, in_process

Gmg = Callable[..., Done]


@pytest.fixture(autouse=True)
def no_engine_survives(own_folders: None) -> Iterator[None]:
    """End the engines of a test that failed half-way; those that it scripted are this process, or away."""
    yield
    entries = []
    with contextlib.suppress(GmgError):  # a test of a folder that cannot be read
        entries = sessions.list_sessions()
    for entry in entries:
        pid = entry.record.session.engine_pid
        # Where the test has given its state folder away, these may be the developer's own sessions.
        is_of_test = entry.folder.is_relative_to(os.environ["XDG_STATE_HOME"])
        if is_of_test and entry.runs_here and pid != os.getpid():
            # It may end by itself at any moment.
            with contextlib.suppress(psutil.NoSuchProcess):
                engine = psutil.Process(pid)
                for _ in range(2):  # the second asks it to kill its workers
                    engine.terminate()
                engine.wait()


class _NoEngine:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cancel(self) -> None:
        pass


@pytest.fixture
def gmg(monkeypatch: pytest.MonkeyPatch) -> Gmg:
    """Run a command line in this process, without a terminal, up to the start of an engine."""
    monkeypatch.setattr("gmg_tui.cli.prestart.PrestartedEngine", _NoEngine)

    return lambda *words: in_process(*map(str, words))


class Asked:
    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.fresh: list[bool] = []
        self.jobs: list[list[JobRecord]] = []

    def launch(
        self, engine: object, spec: RunSpec, *_: object, new_folder: OpenFolder | None, **__: object
    ) -> NoReturn:
        self.specs.append(spec)
        self.fresh.append(new_folder is not None)
        store = Path(spec.folder) / STORE
        self.jobs.append(reader.load_jobs(store) if store.exists() else [])
        raise launch._DiedError("far enough")  # the session's folder stays


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(launch, "_launch", asked.launch)
    return asked


@pytest.fixture
def spec_of(gmg: Gmg, asked: Asked) -> Callable[..., RunSpec]:
    """The spec of the engine that a command line starts."""

    def ask(*words: Any) -> RunSpec:
        result = gmg(*words)
        assert result.stderr.endswith("gmg-tui: far enough\n"), result.stderr
        return asked.specs[-1]

    return ask


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "sim.py").write_text("print('fine')")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    return folder
