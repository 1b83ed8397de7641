"""Names, files and streams that are odd but allowed: each does what is meant, or is one line."""

from __future__ import annotations

import csv
import io
import os
import resource
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from gmg_tui.gpu import failure
from gmg_tui.report.page import _cell
from gmg_tui.results.summary import Cell, line
from gmg_tui.sweep.experiments_file import read


def _gmg(folder: Path, *words: str, out: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmg_tui", *words]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with Path(out or os.devnull).open("w") as stream:
        return subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdout=stream if out else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )


def test_a_script_whose_name_is_hostile_runs_and_is_listed_in_one_line(tmp_path: Path) -> None:
    for name in ("-dash.py", "esc\x1b[31m\nx.py"):
        (tmp_path / name).write_text("print('fine')")
        ran = _gmg(tmp_path, "--cpu", "1", "--headless", "--", name)
        assert ran.returncode == 0, ran
    listed = _gmg(tmp_path, "ls").stdout.splitlines()
    assert len(listed) == 3
    assert "\x1b" not in "".join(listed)


@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["report"], ["report", "--csv"], ["--detach"]])
def test_a_full_standard_output_is_one_line(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "sim.py").write_text("print('fine')")
    run = ["--cpu", "1", "sim.py"]
    if words[0] == "--detach":
        words = [*words, *run]
    else:
        assert _gmg(tmp_path, "--headless", *run).returncode == 0
    ended = _gmg(tmp_path, *words, out="/dev/full")
    assert (ended.returncode, ended.stderr) == (
        1,
        "gmg-tui: cannot write standard output: No space left on device\n",
    )


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    sheet = tmp_path / "sweep.toml"
    sheet.write_bytes(b'\xef\xbb\xbfscript = "sim.py"\n[grid]\nx = [1]\n')
    assert read(str(sheet)).settings.script == "sim.py"


def test_a_text_that_a_spreadsheet_would_run_is_a_text_in_it() -> None:
    row: list[Cell] = ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "-0.5", "+1e3", "plain", -1.5, None, True]
    (written,) = csv.reader(io.StringIO(line(row)))
    assert written == ["'=1+1", "'+cmd", "'-x", "'@SUM(A1)", "'\tx", "-0.5", "+1e3", "plain", "-1.5", "", "true"]


def test_no_control_character_comes_to_the_page() -> None:
    assert _cell("a\x00b\x1b<i>\tc\n") == '<td class="text">a·b·&lt;i&gt;\tc\n</td>'


def test_nvml_without_files_to_open_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    error = pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert "modprobe" in str(failure.unavailable(error))
    used = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 5, used + 5))
    said = str(failure.unavailable(error))
    assert f"of at most {used + 5} are open" in said
    assert "ulimit -n" in said
    assert "modprobe" not in said
