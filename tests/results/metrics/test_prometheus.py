"""A real Prometheus scrapes real sessions, and answers queries."""

import shutil
from pathlib import Path

import pytest

from tests.cli.scripted import ROOT, WORKER, gmg
from tests.engine.harness import JOB
from tests.nvml_sim import Sim
from tests.results.metrics.served import detached, fetch, metrics, prometheus, promtool

pytestmark = [
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
    pytest.mark.slow,
]


def _queries_of_the_guide() -> list[str]:
    guide = (ROOT / "gmg_tui" / "guide" / "metrics.md").read_text()
    block = guide.partition("```promql\n")[2].partition("```")[0]
    return [line.partition("  #")[0] for line in block.splitlines()]


def test_metrics_of_workers_gpus_and_jobs_can_be_queried(sim: Sim, tmp_path: Path) -> None:
    del sim.gpus[2:]
    sim.gpus[1].unsupported = {"power_w", "fan_pct"}
    sim.write()
    go = tmp_path / "go"
    with metrics("--listen", "127.0.0.1:0") as (_, url), prometheus(url, tmp_path) as server:
        name = detached(
            "--name", "two", WORKER, "--lines", "0", "--steady", "-B", "4096", "--fps", "24000", **sim.env()
        )
        (labels, fps), *_ = server.until('gmg_worker_fps{slot="gpu0"} > 20000')
        assert {key: labels.get(key) for key in ("session", "slot", "gpu", "uuid", "node", "rank")} == {
            "session": name,
            "slot": "gpu0",
            "gpu": "0",
            "uuid": sim.gpus[0].uuid,
            "node": None,
            "rank": None,
        }
        server.until("sum(gmg_worker_n_envs) == 8192")
        server.until('gmg_worker_state{slot="gpu1", state="running"} == 1')
        assert [(labels["gpu"], watts) for labels, watts in server.query("gmg_gpu_power_watts")] == [("0", 600.5)]
        assert server.query("gmg_gpu_memory_total_bytes")[0][1] == 81559 * 2**20
        assert promtool(fetch(url)) == ""
        queries = _queries_of_the_guide()
        answers = [server.query(query) for query in queries]
        assert [bool(answer) for answer in answers] == [True, True, False, False], queries
        (_, per_joule), *others = answers[1]
        assert others == []
        assert per_joule == pytest.approx(fps / 600.5, rel=0.2)

        words = ("--cpu", "1", "--set", "x=1,2", "--script", JOB, "--until", f"{go}-{{x}}", "--fail", "{x}")
        assert gmg("sweep", "--detach", "--name", "many", *words).returncode == 0
        server.until('gmg_worker_attempt{session="many", slot="cpu0", gmg_job="1"} == 1')
        Path(f"{go}-1").touch()
        server.until('gmg_worker_attempt{session="many", slot="cpu0", gmg_job="2"} == 1')
        server.until('gmg_worker_failures_total{session="many", slot="cpu0"} == 1')
        Path(f"{go}-2").touch()
        server.until('gmg_session_up{session="many"}', empty=True)

        assert gmg("stop", name).returncode == 0
        server.until('gmg_worker_fps{session="two"}', empty=True)
        server.until('gmg_session_up{session="two"}', empty=True)
