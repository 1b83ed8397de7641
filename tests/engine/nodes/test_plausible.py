"""What a node's agent reports costs nothing but what is implausible."""

import math
import time

import msgspec
import pytest
from msgspec import structs

from gmg_tui.engine.attempts.attempt import RankActivity
from gmg_tui.engine.attempts.curves import MAX_CURVES
from gmg_tui.engine.nodes.plausible import check_curves, decode_curves, limit_metrics, sanitize, sanitize_curves
from gmg_tui.engine.nodes.states import AttemptReport
from gmg_tui.machine.gpu.nvml_metrics import THROTTLE_REASONS
from gmg_tui.model import (
    NO_ATTEMPT,
    Checkpoint,
    Curve,
    Details,
    Fps,
    GpuSample,
    Point,
    Snapshot,
    Worker,
    WorkerState,
)
from gmg_tui.model.errors import GmgError


def test_amounts_too_small_for_ratios_are_unknown() -> None:
    fps = Fps(1e-322, 1.0, 1.0, 1, 1.0, env_steps=1e-300)
    worker = Worker(
        "n1/cpu0", 0, WorkerState.RUNNING, newest=structs.replace(NO_ATTEMPT, fps=fps, metrics={"x": 1e-40})
    )
    shown = sanitize(worker).newest
    assert (shown.fps.last, shown.fps.env_steps, shown.metrics) == (None, None, {"x": 1e-40})


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e301])
def test_an_implausible_extreme_of_a_metric_costs_only_itself(value: float) -> None:
    """The store's thread decodes the curves: an error there would keep all later records from it."""
    curve = Curve((1.0,), (1,), (1.0,), 1, lowest=Point(1.0, 1, value), highest=Point(1.0, 1, 2.0))
    data = msgspec.msgpack.encode({"reward": curve})
    check_curves(data)
    assert decode_curves(data) == {"reward": structs.replace(curve, lowest=None)}


def test_a_rank_without_a_process_can_be_reported() -> None:
    report = AttemptReport(1, Worker("", 0, WorkerState.STARTING), RankActivity().on_clock(-time.time()))
    assert sanitize(report) == report


def test_a_checkpoint_with_an_implausible_figure_costs_no_report() -> None:
    """A script chooses it, in its probe's file."""
    saved = Checkpoint("/runs/1.pt", 1.0, env_steps=2 * 10**18)
    attempt = structs.replace(NO_ATTEMPT, checkpoints=(saved, structs.replace(saved, env_steps=5)))
    assert [checkpoint.env_steps for checkpoint in sanitize(attempt).checkpoints] == [0, 5]


def test_no_list_is_longer_than_what_an_agent_has() -> None:
    """Half a million minimal attempts in an answer took the engine half a minute."""
    points = tuple(map(float, range(5000)))
    details = Details("s", ("python",) * 5000, "/", {}, (), "", (NO_ATTEMPT,) * 5000, args=("x",) * 5000)
    assert len(sanitize(details).attempts) == 1
    assert len(sanitize(details).command) == 5000
    curve, many = Curve(points[:400], (None,) * 400, points[:400]), map(str, range(300))
    assert sanitize_curves({"x": curve}) == {"x": curve}
    for curves in ({"x": Curve(points, (1,) * 5000, points)}, dict.fromkeys(many, curve)):
        with pytest.raises(GmgError, match="more than 256 curves, or one of more than 400 points"):
            sanitize_curves(curves)
    snapshot = Snapshot(1.0, 0.0, (Worker("", 0, WorkerState.RUNNING),) * 5000, samples=(GpuSample("GPU-1"),) * 5000)
    assert (len(sanitize(snapshot).workers), len(sanitize(snapshot).samples)) == (256, 256)
    attempt = sanitize(structs.replace(NO_ATTEMPT, metrics=dict.fromkeys(map(str, range(5000)), 1.0)))
    assert len(attempt.metrics) == MAX_CURVES


@pytest.mark.parametrize(
    ("path", "progress", "is_kept"),
    [
        *(
            ("/" + "é" * 800, "", False),
            ("/m.pt", "é" * 99, True),
            ("/a/.b/..c/m..pt", "", True),
            ("/\n/m.pt", "", True),
        ),
        *(
            (path, "", False)
            for path in ("m.pt", "/", "//", "/a/../m.pt", "/..", "/../m.pt", "/a/./m.pt", "/\n/../m.pt", "/a/..")
        ),
        *(
            ("//a/m.pt", "", False),
            ("/a//m.pt", "", False),
            ("/proc/self/root/m.pt", "", False),
            ("/sys/m.pt", "", False),
            ("/system/m.pt", "", True),
        ),
    ],
)
def test_a_checkpoint_is_limited_in_bytes_and_does_not_go_up(path: str, progress: str, is_kept: bool) -> None:
    """They come back in the reports of the node that the job moves to."""
    attempt = structs.replace(NO_ATTEMPT, checkpoints=(Checkpoint(path, 1.0, progress=progress),))
    assert bool(sanitize(attempt).checkpoints) is is_kept


def test_a_reason_is_one_line() -> None:
    assert sanitize(Worker("", 0, WorkerState.FAILED, reason="disk\nfull\x1b[2J")).reason == "disk·full"
    assert len(sanitize(Worker("", 0, WorkerState.FAILED, reason="x" * 8000)).reason or "") == 500


def test_only_known_reasons_of_throttling_are_kept() -> None:
    """They are labels in Prometheus, and each makes a new time series."""
    known, *_ = THROTTLE_REASONS
    assert sanitize(GpuSample("GPU-1", throttle=("a lie", known))).throttle == (known,)


def test_a_node_has_no_more_metrics_than_a_script() -> None:
    """New names again and again would fill a Prometheus server."""
    names = set[str]()
    for start in (0, 200, 400):
        metrics = {**{f"m{number}": 1.0 for number in range(start, start + 200)}, "x" * 201: 1.0, "m0": float(start)}
        assert limit_metrics(metrics, names)["m0"] == start
    assert len(names) == MAX_CURVES
    assert "m255" in names
