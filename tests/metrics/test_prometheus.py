"""A real Prometheus scrapes real sessions, and answers queries."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.scripted import ROOT
from tests.engine.harness import JOB
from tests.harm.patience import wait_until
from tests.metrics.served import WORKER, detached, fetch, gmg, metrics, prometheus, promtool, samples
from tests.nvml_sim import Sim

pytestmark = [
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
    pytest.mark.slow,
]


def _queries_of_the_readme() -> list[str]:
    section = (ROOT / "README.md").read_text().partition("### Prometheus\n")[2].partition("\n### ")[0]
    (block,) = re.findall(r"```\n(.*?)```", re.sub(r"```(?:sh|yaml)\n.*?```", "", section, flags=re.DOTALL), re.DOTALL)
    return [line.partition("  #")[0] for line in block.splitlines()]


def test_what_workers_and_their_gpus_do_can_be_queried_and_ends_with_them(sim: Sim, tmp_path: Path) -> None:
    del sim.gpus[2:]
    sim.gpus[1].unsupported = {"power_w", "fan_pct"}
    sim.write()
    name = detached("--name", "two", WORKER, "--lines", "0", "--steady", "-B", "4096", "--fps", "24000", **sim.env())
    with metrics("--listen", "127.0.0.1:0") as (_, url), prometheus(url, tmp_path) as server:
        uuid = sim.gpus[0].uuid
        (labels, fps), *_ = server.until('gmg_worker_fps{slot="gpu0"}')
        assert {key: labels[key] for key in ("session", "slot", "gpu", "uuid")} == {
            "session": name,
            "slot": "gpu0",
            "gpu": "0",
            "uuid": uuid,
        }
        assert fps == pytest.approx(24000, rel=0.2)
        assert "node" not in labels
        assert "rank" not in labels
        server.until('gmg_worker_fps_settled{slot="gpu1"} > 20000')
        server.until("sum(gmg_worker_n_envs) == 8192")
        server.until('gmg_worker_state{slot="gpu1", state="running"} == 1')
        server.until('gmg_worker_phase{slot="gpu1", phase="running"} == 1')
        server.until("sum(increase(gmg_worker_lines_total[30s])) > 20")
        # A join by the card, as a dashboard makes it.
        server.until(f'gmg_worker_fps * on (uuid) group_left gmg_gpu_power_watts{{uuid="{uuid}"}} > 0')
        assert [(found["gpu"], watts) for found, watts in server.query("gmg_gpu_power_watts")] == [("0", 600.5)]
        assert [found["gpu"] for found, _ in server.query("gmg_gpu_fan_ratio")] == ["0"]
        assert server.query("gmg_gpu_memory_total_bytes")[0][1] == 81559 * 2**20
        assert promtool(fetch(url)) == ""
        answers = [server.query(query) for query in _queries_of_the_readme()]
        assert [bool(answer) for answer in answers] == [True, True, False, False]

        assert gmg("stop", name).returncode == 0
        server.until("gmg_worker_fps", empty=True)
        server.until("gmg_gpu_temperature_celsius", empty=True)
        server.until('gmg_sessions_ended_total{outcome="stopped"} == 1')
        server.until('gmg_session_workers{session="two", state="stopped"} == 2')
        server.until("gmg_session_up", empty=True)
        # What was counted is told on for a while, so that no scrape misses the end of it.
        server.until("gmg_worker_lines_total")


def test_failures_restarts_and_sessions_that_come_later_are_counted(tmp_path: Path) -> None:
    with metrics("--listen", "127.0.0.1:0") as (_, url), prometheus(url, tmp_path) as server:
        server.until("gmg_sessions == 0")
        crash = ("--crash", "oom", "--crash-attempt", "2", "--crash-at", "building")
        detached("--name", "late", "--cpu", "1", "--restart", "failure", WORKER, "--lines", "0", *crash)
        server.until('gmg_worker_failures_total{session="late", slot="cpu0", class="out of memory"} == 2')
        server.until('gmg_worker_restarts_total{session="late", slot="cpu0"} == 2')
        server.until('gmg_worker_attempt{session="late"} == 3')
        assert promtool(fetch(url)) == ""


def test_the_jobs_of_a_sweep_are_counted_and_are_labels(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with metrics("--listen", "127.0.0.1:0") as (_, url), prometheus(url, tmp_path) as server:
        words = ("--script", JOB, "--cpu", "1", "--set", "x=1,2,3", "--args", f"--until {go}-{{x}} --fail {{x}}")
        done = gmg("sweep", "--detach", "--name", "many", *words)
        assert done.returncode == 0, done.stderr
        server.until('gmg_jobs{session="many", state="waiting"} == 2')
        server.until('gmg_worker_attempt{session="many", slot="cpu0", job="1"} == 1')
        server.until('gmg_queue_wait_seconds_count{session="many"} == 1')
        server.until('gmg_queue_longest_wait_seconds{session="many"} > 0')
        Path(f"{go}-1").touch()
        server.until('gmg_worker_attempt{session="many", slot="cpu0", job="2"} == 1')
        server.until('gmg_jobs{session="many", state="failed"} == 1')
        server.until('gmg_worker_failures_total{session="many", slot="cpu0", class="unknown"} == 1')
        server.until('gmg_worker_attempt{job="1"}', empty=True)
        assert promtool(fetch(url)) == ""
        Path(f"{go}-2").touch()
        Path(f"{go}-3").touch()
        server.until('gmg_sessions_ended_total{outcome="failed"} == 1')
        server.until('gmg_jobs{session="many", state="failed"} == 3')


def test_the_names_of_dcgm_are_told_where_they_are_asked_for(sim: Sim, tmp_path: Path) -> None:
    del sim.gpus[1:]
    sim.write()
    detached(WORKER, "--lines", "0", **sim.env())
    with metrics("--listen", "127.0.0.1:0", "--dcgm-names") as (_, url):
        wait_until(lambda: samples(fetch(url), "DCGM_FI_DEV_GPU_TEMP"))
        text = fetch(url)
        (labels, degrees) = samples(text, "DCGM_FI_DEV_GPU_TEMP")[0]
        assert degrees == 60
        assert labels.pop("Hostname")
        gpu = sim.gpus[0]
        assert labels == {
            "gpu": "0",
            "UUID": gpu.uuid,
            "device": "nvidia0",
            "modelName": gpu.name,
            "pci_bus_id": gpu.pci_bus_id,
        }
        for name, expected in (("POWER_USAGE", 600.5), ("SM_CLOCK", 1700), ("GPU_UTIL", 90), ("FB_USED", 30211)):
            assert [value for _, value in samples(text, f"DCGM_FI_DEV_{name}")] == [expected]
