"""Sessions of earlier versions: each command reads each sample in `tests/samples/stores`."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.cli import gpus
from gmg_tui.cli.doctor import Finding
from gmg_tui.model import Gpu, GpuProcess, GpuSample, SpeedFacts, Verdict
from gmg_tui.model.speed import HotSpot, Load, Shares
from gmg_tui.results.json_csv_export import export
from gmg_tui.scripts import interpreter
from gmg_tui.session import RECORD, STORE
from gmg_tui.session.ended_session import EndedSession
from gmg_tui.session.store import database
from gmg_tui.session.store.reader import open_store
from tests.cli.scripted import gmg, in_process

STORES = Path(__file__).parents[1] / "samples" / "stores"
SAMPLES = sorted(path.parent.relative_to(STORES) for path in STORES.glob("*/*/session.json"))
_JOB = 'import sys\nprint("Running at 1,000.00 FPS", flush=True)\nprint("gmg:result", \'{"loss": 0.5}\', flush=True)\n'


def _restored(sample: Path | str, cwd: Path) -> Path:
    """A copy of a sample among the user's sessions, with the paths of this machine; its folder."""
    folder = sessions.sessions_folder() / Path(sample).name
    shutil.copytree(STORES / sample, folder)
    record = json.loads((folder / RECORD).read_text())
    here = {"folder": str(folder), "socket": str(sessions.socket_path(folder.name)), "host": ""}
    spec = record["session"]["spec"]
    spec |= {**here, "cwd": str(cwd), "python": sys.executable}
    if "simulate" in spec:
        spec["script"] = str(Path(gmg_tui.__file__).with_name("simulation") / "worker.py")
    record["session"]["versions"] = msgspec.to_builtins(interpreter.versions(sys.executable))
    (folder / RECORD).write_text(json.dumps(record))
    return folder


def _asked(*words: str) -> str:
    out, err, status = in_process(*words)
    assert (err, status) == ("", 0)
    return out


def test_there_is_a_sample_of_each_format_and_of_each_kind_of_session() -> None:
    assert {sample.parent.name for sample in SAMPLES} == {str(database.VERSION)}
    assert {sample.name for sample in SAMPLES} == {"plain", "sweep", "tuning", "group"}
    for sample in SAMPLES:
        with sqlite3.connect(STORES / sample / STORE) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (int(sample.parent.name),)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_each_command_reads_a_session_of_an_earlier_version(sample: Path, tmp_path: Path) -> None:
    folder = _restored(sample, tmp_path)
    name = folder.name
    (entry,) = json.loads(_asked("ls", "--json"))
    assert (entry["name"], entry["state"]) == (name, "ended")
    expected = {"sweep": "diverged", "tuning": "the budget is used up"}.get(name, "total 11,")
    assert expected in _asked("report", name)
    jobs: list[dict[str, Any]] = json.loads(_asked("report", name, "--json"))["jobs"]
    assert all(job["attempts"] for job in jobs)
    assert len(_asked("report", name, "--csv").splitlines()) == len(jobs) + 1
    page = tmp_path / "page.html"
    _asked("report", name, "--html", str(page))
    assert page.stat().st_size > 10_000
    slot = jobs[0]["slot"]
    assert "FPS" in _asked("logs", name, slot)
    asyncio.run(_looked_at(folder, slot))


async def _looked_at(folder: Path, slot: str) -> None:
    """Attach to the session, and ask for all that it can answer."""
    entry = sessions.inspect(folder)
    source = await EndedSession.open(folder, entry.record.session)
    assert any(fps is not None for fps in (await source.series(slot)).fps)
    assert (await source.details(slot)).attempts
    assert await source.tried()
    whose = "job 1 (" if entry.record.session.spec.sweep is not None else f"{slot} has started"
    assert any(event.text.startswith(whose) for event in await source.occurrences())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"), [("sweep", ("sweep", "--retry-failed", "--resume")), ("tuning", ("tune", "--resume"))]
)
def test_a_session_of_an_earlier_version_is_continued(name: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(_JOB)
    folder = _restored(f"12/{name}", tmp_path)
    with open_store(folder / STORE) as stored:
        before = stored.jobs
    began = json.loads(_asked("ls", "--json"))[0]["started"]
    done = gmg(*words, name, "--headless")
    assert done.returncode == 0, done.stdout + done.stderr
    with open_store(folder / STORE) as stored:
        after = stored.jobs
    assert len(after) >= len(before)
    assert json.loads(_asked("ls", "--json"))[0]["started"] == began
    ended = [job for job in before if job.state.value == "finished"]
    assert [job.last for job in after[: len(ended)]] == [job.last for job in ended]


_FREE = {"values", "env", "metrics", "result", "rates", "factors", "simulator"}
"""Fields whose names are the user's, the script's or those of slots."""


_TIMES = {"time", "started", "saved", "since"}


def _fields(value: object) -> dict[str, str]:
    """The fields of a JSON output, at any depth, with their types."""
    found: dict[str, str] = {}
    if isinstance(value, list):
        for each in value:
            found |= _fields(each)
    for name, inner in value.items() if isinstance(value, dict) else ():
        found[name] = type(inner).__name__
        found |= {} if name in _FREE else _fields(inner)
    return found


def _line_of(heading: str) -> set[str]:
    """The fields that the manual's page on files lists for an output."""
    manual = Path(gmg_tui.__file__).with_name("guide").joinpath("files.md").read_text()
    (line,) = (line for line in manual.splitlines() if line.startswith(f"| `{heading}` | `"))
    return set(re.findall(r"`(\w+)`", line))


def test_each_field_of_gpus_and_doctor_is_in_the_manual() -> None:
    processes = (GpuProcess(os.getpid(), memory_mib=512.0),)
    gpu = gpus.to_json(
        Gpu(0, "GPU-0", "H100", "0000:01:00.0"), GpuSample("GPU-0", processes=processes, throttle=("heat",))
    )
    assert _fields(gpu).keys() == _line_of("gpus --json")
    assert set(Finding.__struct_fields__) == _line_of("doctor --json")


@pytest.mark.parametrize("kind", [Verdict, SpeedFacts, Load, Shares, HotSpot])
def test_each_fact_of_why_is_in_the_manual(kind: type[Struct]) -> None:
    assert set(kind.__struct_fields__) <= _line_of("why --json")


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        ("ls", "ls --json"),
        ("why plain", "why --json"),
        ("report plain", "report A --json"),
        ("report plain group", "report A B --json"),
        ("", "summary.json"),
        ("", "tune.json"),
    ],
)
def test_each_field_of_the_json_outputs_is_in_the_manual(words: str, heading: str, tmp_path: Path) -> None:
    folders = {name: _restored(f"12/{name}", tmp_path) for name in ("plain", "sweep", "tuning", "group")}
    if words:
        text = _asked(*words.split(), "--json")
    else:
        export(sessions.inspect(folders["tuning"]).record.session)
        text = (folders["tuning"] / heading).read_text()
    fields = _fields(json.loads(text))
    missing = fields.keys() - _line_of(heading)
    assert not missing, f"{heading}: {sorted(missing)}"
    assert {fields[name] for name in _TIMES & fields.keys()} <= {"str", "NoneType"}
