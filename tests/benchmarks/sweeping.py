"""The queue: how well a sweep fills its GPUs, and what it costs for each job."""

from __future__ import annotations

import csv
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.benchmarks.ground import ROOT, Ground
from tests.benchmarks.report import markdown, say

JOB = ROOT / "tests" / "job.py"


def run(ground: Ground, *, quick: bool) -> None:
    """Measure both, and print the tables."""
    with ground.gpus(3) as env:
        _fill(ground, env, job_s=1.0 if quick else 10.0)
    print()
    _cost(ground, jobs=500 if quick else 10_000)


def _fill(ground: Ground, env: Mapping[str, str], *, job_s: float) -> None:
    """Twelve jobs on three GPUs against four in a row."""
    say(f"4 jobs of {job_s:.0f} s in a row, then 12 on 3 GPUs")
    began = time.monotonic()
    for _ in range(4):
        subprocess.run([sys.executable, str(JOB), "--s", str(job_s)], env=dict(env), check=True)
    row_s = time.monotonic() - began
    marks = ground.folder / "marks"
    marks.mkdir()
    began = time.monotonic()
    args = ["--marks", str(marks), "--s", str(job_s), "--value", "{x}"]
    grid = ",".join(map(str, range(12)))
    command = ["sweep", "--script", str(JOB), "--set", f"x={grid}", "--name", "fill", "--headless", "--", *args]
    subprocess.run([sys.executable, "-m", "gmg_tui", *command], env=dict(env), check=True, stdout=subprocess.DEVNULL)
    sweep_s = time.monotonic() - began
    seen = [json.loads(path.read_text()) for path in marks.iterdir()]
    head = ["12 jobs on 3 GPUs", "figure"]
    rows = [
        ["4 jobs in a row, from a shell's loop", f"{row_s:.2f} s"],
        ["12 jobs by the sweep, from the command's start to its end", f"{sweep_s:.2f} s"],
        ["ratio", f"{sweep_s / row_s:.3f}"],
        ["jobs on each GPU", ", ".join(str(_on(seen, gpu)) for gpu in "012")],
        ["moments at which a GPU had two", str(sum(_overlaps(seen, gpu) for gpu in "012"))],
    ]
    print(markdown(head, rows))


def _on(seen: list[dict[str, str]], gpu: str) -> int:
    return sum(1 for mark in seen if mark["CUDA_VISIBLE_DEVICES"] == gpu)


def _overlaps(seen: list[dict[str, str]], gpu: str) -> int:
    spans = sorted((mark["began"], mark["ended"]) for mark in seen if mark["CUDA_VISIBLE_DEVICES"] == gpu)
    return sum(1 for (_, ended), (began, _) in itertools.pairwise(spans) if began < ended)


def _cost(ground: Ground, *, jobs: int) -> None:
    """Jobs that take no time at all, beside the start of as many processes by Python itself."""
    say(f"{jobs:,} jobs of 0 s")
    script = ground.folder / "zero.py"
    script.write_text("")
    # A real interpreter starts in ten times the time that is to be measured; this one is a shell, for that script.
    python = ground.folder / "python"
    python.write_text(f'#!/bin/sh\ncase "$1" in {script}) exit 0;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    began = time.monotonic()
    for number in range(jobs):
        subprocess.run([str(python), str(script), str(number)], check=True)
    alone_s = time.monotonic() - began
    env = ground.env()
    file = ground.folder / "zero.toml"
    file.write_text(f'script = "{script}"\nargs = ["{{x}}"]\n[grid]\nx = {list(range(jobs))}\n')
    command = ["sweep", str(file), "--cpu", "1", "--python", str(python), "--name", "zero", "--headless"]
    began = time.monotonic()
    sweep = subprocess.Popen([sys.executable, "-m", "gmg_tui", *command], env=env, stdout=subprocess.DEVNULL)
    peak, cpu_s = _watched(sweep, env)
    sweep_s = time.monotonic() - began
    folder = Path(env["XDG_STATE_HOME"]) / "gmg-tui" / "sessions" / "zero"
    with (folder / "summary_results.csv").open(newline="") as text:
        finished = sum(row["state"] == "finished" for row in csv.DictReader(text))
    rows = [
        ["finished, by the results' file", f"{finished:,}"],
        ["such a process, started and waited for by Python", f"{1000 * alone_s / jobs:.2f} ms"],
        ["a job of the sweep", f"{1000 * sweep_s / jobs:.2f} ms"],
        ["the queue's own cost for each job", f"{1000 * (sweep_s - alone_s) / jobs:.2f} ms"],
        ["CPU time of the engine for each job", f"{1000 * cpu_s / jobs:.2f} ms"],
        ["memory of the engine at its highest, RSS", f"{peak / (1 << 20):.0f} MiB"],
    ]
    print(markdown([f"{jobs:,} jobs of 0 s on one slot", "figure"], rows))


def _watched(sweep: subprocess.Popen[bytes], env: Mapping[str, str]) -> tuple[int, float]:
    """The highest resident memory of a sweep's engine, bytes, and its CPU time, seconds."""
    peak, cpu_s = 0, 0.0
    engine: psutil.Process | None = None
    record = Path(env["XDG_STATE_HOME"]) / "gmg-tui" / "sessions" / "zero" / "session.json"
    while True:
        try:
            sweep.wait(0.25)
        except subprocess.TimeoutExpired:
            pass
        else:
            return peak, cpu_s
        try:
            if engine is None and record.exists():
                engine = psutil.Process(json.loads(record.read_bytes())["session"]["engine_pid"])
            if engine is not None:
                peak = max(peak, engine.memory_info().rss)
                cpu_s = sum(engine.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue  # it has ended, and the command will
