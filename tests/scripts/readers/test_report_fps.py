"""`gmg_tui.report_fps`: its output, its cost, and its display."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gmg_tui
from gmg_tui.scripts.genesis.output.line_patterns import REPORTED, is_progress_only
from gmg_tui.scripts.genesis.output.reader import Reader
from gmg_tui.scripts.readers.reported import FPS_MARK, ReportedRates
from tests.cli.scripted import gmg

_SCRIPT = """
import sys, time
import gmg_tui
for step in range(1, 31):
    time.sleep(0.02)
    gmg_tui.report_fps(5000.0 + step, n_envs=128, done=step, total=30, reward=0.5 * step)
"""
_WORDS = """
import time
for step in range(1, 31):
    time.sleep(0.02)
    print(f"step {step} of 30 at {5000 + step} sps with 128 worlds", flush=True)
"""
_PATTERN = r"step (?P<done>\\d+) of (?P<total>\\d+) at (?P<fps>\\d+) sps with (?P<n_envs>\\d+) worlds"


def _run(folder: Path, script: str, *options: str) -> dict[str, object]:
    path, summary = folder / "sim.py", folder / "summary.json"
    path.write_text(script)
    words = ("--cpu", "1", "--headless", "--python", sys.executable, "--summary", str(summary), *options, str(path))
    ran = gmg(*words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    worker: dict[str, object] = json.loads(summary.read_text())["workers"][0]
    return worker


@pytest.mark.parametrize(
    ("script", "options"), [(_SCRIPT, ()), (_WORDS, ("--pattern", _PATTERN.replace("\\\\", "\\")))]
)
def test_the_summary_contains_metrics_of_a_script_without_genesis(
    tmp_path: Path, script: str, options: tuple[str, ...]
) -> None:
    worker = _run(tmp_path, script, *options)
    fps = worker["fps"]
    assert isinstance(fps, dict)
    assert (fps["last"], fps["max"], fps["samples"], worker["n_envs"]) == (5030.0, 5030.0, 30, 128)


def test_the_line_is_parsed_and_counts_only_as_progress(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader(started=0.0)
    gmg_tui.report_fps(100, 8, done=3, total=12, loss=float("nan"), reward=2)
    printed = capsys.readouterr().out
    reader.feed(b"\x1b[32m" + printed.rstrip().encode() + b"\x1b[0m\n", 1.0)  # as a logger may colour it
    assert (reader.fps.last, reader.n_envs) == (100.0, 8)
    assert (reader.progress.done, reader.progress.total) == (3.0, 12.0)
    assert reader.metrics == pytest.approx({"loss": float("nan"), "reward": 2.0}, nan_ok=True)
    assert is_progress_only(printed.rstrip())
    assert FPS_MARK.decode() == REPORTED


@pytest.mark.parametrize(
    "line",
    [
        b'    print(f"gmg:fps {json.dumps(numbers)}")\n',
        b"    print('  gmg:fps ' + text)\n",
        b'    print("\\n[mine] gmg:fps {}".format(fps))  # as report_fps does\n',
        b"    gmg:fps {rate}\n",
        b"SyntaxError: the line '    gmg:fps {x}' is wrong\n",
    ],
)
def test_source_quoted_by_a_traceback_is_not_a_report(line: bytes) -> None:
    reader = Reader(started=0.0)
    reader.feed(b"Traceback (most recent call last):\n" + line, 1.0)
    assert (reader.signs, reader.fps) == ((), None)


@pytest.mark.parametrize("text", [b"[1]", b'{"fps": "fast"}', b"{", b'{"fps": 1' + b" " * 9000 + b"}", b"\xff"])
def test_a_line_without_an_object_of_numbers_is_reported_once(text: bytes) -> None:
    reader = Reader(started=0.0)
    for _ in range(2):
        reader.feed(FPS_MARK + text + b"\n", 1.0)
    assert reader.fps is None
    assert len(reader.signs) == 1


def test_impossible_figures_are_left_out() -> None:
    reader = Reader(started=0.0)
    for second, fps in enumerate(("1000.0", "5e-324", "-1", "1e18", "NaN", "0", "2000.0")):
        reader.feed(b'gmg:fps {"fps": %s}\n' % fps.encode(), float(second))
    assert (reader.fps.last, reader.fps.samples) == (2000.0, 3)
    assert (reader.fps.mean or 0.0) > 0


def test_a_metric_with_a_very_long_name_is_left_out() -> None:
    """Clients get the metrics of all workers each second."""
    line = json.dumps({"fps": 5.0, "x" * 200: 1.0, "y" * 201: 2.0}).encode()
    (read,) = ReportedRates().read(b"gmg:fps " + line + b"\n")
    assert (read.rates, read.metrics) == ((5.0,), {"x" * 200: 1.0})


def test_importing_gmg_tui_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import gmg_tui; print(sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['gmg_tui']"
