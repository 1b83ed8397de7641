"""What is read of collectives in the ranks' output, and which rank is at fault when one does not end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ddp.collectives import Observations, TimedOut, at_fault

from . import nccl_lines

_GROUP = "0(default_pg)"
_PROGRESS = b"[Genesis] [07:00:23] [INFO] Running at 24,013,029.12 FPS (5,862.56 FPS per env, 4096 envs).\n"


def _read(*blocks: bytes) -> Observations:
    seen = Observations()
    for block in blocks:
        seen.feed(block)
    return seen


def _at_fault(output_by_rank: Mapping[int, bytes]) -> str:
    return at_fault({rank: _read(output) for rank, output in output_by_rank.items()}) or ""


def _waits(rank: int, number: int, operation: str = "BROADCAST", enqueued: int | None = None) -> bytes:
    last = enqueued if enqueued is not None else number
    return nccl_lines.timed_out(rank, number, operation, 600_081) + nccl_lines.detected(rank, number, last, number - 1)


def _reached(rank: int, enqueued: int) -> bytes:
    return nccl_lines.dump_signal(rank, " rank 0", enqueued, enqueued)


def test_a_collective_that_timed_out() -> None:
    seen = _read(_PROGRESS * 3 + nccl_lines.timed_out(1, 79, "BROADCAST", 600_081) + _PROGRESS)
    assert seen.timed_out == {79: TimedOut(79, "BROADCAST", 600_081)}
    assert seen.any


@pytest.mark.parametrize(
    ("lines", "enqueued", "failed"),
    [
        (nccl_lines.detected(0, 78, 79, 77), {_GROUP: 79}, {_GROUP: 78}),
        (nccl_lines.dump_signal(2, " rank 13", 56116, 56116), {_GROUP: 56116}, {}),
        (
            nccl_lines.detected(0, 3, 4, 2) + nccl_lines.detected(0, 90, 91, 89, "tp"),
            {_GROUP: 4, "tp": 91},
            {_GROUP: 3, "tp": 90},
        ),
        (  # with the flight recorder, torch 2.13
            b"[rank3]:[E702 00:00:00.1 ProcessGroupNCCL.cpp:2395] [PG ID 3 PG GUID 7 Rank 3]  failure detected by watchdog"
            b" at work sequence id: 18 PG status: last enqueued work: 39, last started work: 19 (_ALLGATHER_BASE),"
            b" last completed work: 17\n",
            {"7": 39},
            {"7": 18},
        ),
        (  # torch 2.3
            b"[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1,"
            b" last completed NCCL work: 76280750235782912.\n",
            {"0": 1},
            {},
        ),
    ],
)
def test_progress_of_a_rank(lines: bytes, enqueued: dict[str, int], failed: dict[str, int]) -> None:
    seen = _read(lines)
    assert (seen.enqueued, seen.failed) == (enqueued, failed)


def test_torch_lines_when_ranks_do_not_meet() -> None:
    distributed = pytest.importorskip("torch.distributed")
    with pytest.raises(distributed.DistStoreError) as raised:
        distributed.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=1))
    not_met = _read(f"torch.distributed.DistStoreError: {raised.value}\n".encode()).not_met
    assert (not_met or "").startswith("only 1 of 2 ranks came to the group's store within ")


def test_other_lines_are_ignored() -> None:
    seen = _read(_PROGRESS, b"NCCL INFO Watchdog started; the last enqueued job was mine\n")
    assert not seen.any


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ({}, ""),
        ({0: b"", 1: b"all is well\n"}, ""),
        ({0: _reached(0, 7), 1: _reached(1, 7)}, ""),
        (
            {0: _waits(0, 79), 1: _reached(1, 78), 2: _waits(2, 79)},
            "rank 1 never entered BROADCAST #79; the others have waited 600 s",
        ),
        (
            {0: _reached(0, -1), 1: _waits(1, 1, "ALLREDUCE")},
            "rank 0 never entered ALLREDUCE #1; the other has waited 600 s",
        ),
        (
            {0: _waits(0, 78, enqueued=90), 1: _waits(1, 78, enqueued=80)},
            "rank 1 is behind: its last collective is #80, others have entered #90; "
            "BROADCAST #78 has timed out after 600 s",
        ),
        (
            {0: _waits(0, 5), 1: _waits(1, 5), 2: b"Learning iteration 3/10\n", 3: b""},
            "ranks 2 and 3 did not report BROADCAST #5; the others have waited 600 s",
        ),
        (
            {0: _waits(0, 5), 1: _waits(1, 5)},
            "all ranks entered BROADCAST #5, and it did not end within 600 s: "
            "the GPUs do not reach each other, or the sizes differ",
        ),
        (
            {0: _waits(0, 5), 1: _waits(1, 5, "ALLREDUCE"), 2: _waits(2, 5)},
            "the ranks have entered different collectives as #5: ranks 0 and 2 BROADCAST, rank 1 ALLREDUCE",
        ),
        (
            {0: nccl_lines.clients_joined(3, 4), 1: b"", 2: b"", 3: b""},
            "only 3 of 4 ranks came to the group's store within 601 s",
        ),
        (
            {0: b"", 1: nccl_lines.watchdog_stuck(1)},
            "rank 1: NCCL's watchdog has not moved for 480 s, as a CUDA call or Python's lock holds it",
        ),
    ],
)
def test_the_rank_at_fault_is_named(output: dict[int, bytes], sentence: str) -> None:
    assert _at_fault(output) == sentence


def test_the_process_group_that_failed_counts_and_no_other() -> None:
    tensor = nccl_lines.timed_out(1, 9) + nccl_lines.detected(1, 9, 9, 8, "tp")
    behind = nccl_lines.dump_signal(1, "this local rank", 500, 500)
    output = {0: _reached(0, 1) + nccl_lines.detected(0, 8, 8, 7, "tp"), 1: tensor + behind}
    assert _at_fault(output).startswith("rank 0 ")


def test_the_same_number_in_two_process_groups_is_not_the_same_collective() -> None:
    tensor = nccl_lines.timed_out(1, 5, "ALLREDUCE") + nccl_lines.detected(1, 5, 5, 4, "tp")
    assert "different collectives" not in _at_fault({0: _waits(0, 5), 1: tensor, 2: _waits(2, 5)})


@given(st.integers(2, 12), st.data())
def test_exactly_the_ranks_with_the_lowest_enqueued_collective_are_named(size: int, data: st.DataObject) -> None:
    late = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=min(8, size - 1)))
    reached = data.draw(st.integers(0, 1000))
    output = {
        rank: _reached(rank, reached)
        if rank in late
        else _waits(rank, reached + 1, enqueued=reached + data.draw(st.integers(1, 9)))
        for rank in range(size)
    }
    names = [str(rank) for rank in sorted(late)]
    expected = f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]}"
    assert _at_fault(output).startswith(f"{expected} never entered BROADCAST #{reached + 1}; the other")


_LINES = st.one_of(
    st.builds(nccl_lines.timed_out, st.integers(0, 9), st.integers(0, 99), st.sampled_from(["ALLREDUCE", "SEND"])),
    st.builds(nccl_lines.detected, st.integers(0, 9), st.integers(0, 99), st.integers(-1, 99), st.integers(-1, 99)),
    st.builds(nccl_lines.dump_signal, st.just(1), st.just(" rank 3"), st.integers(-1, 99), st.integers(-1, 99)),
    st.builds(nccl_lines.clients_joined, st.integers(0, 9), st.integers(0, 9)),
    st.builds(nccl_lines.watchdog_stuck, st.integers(0, 9), st.integers(1, 9999)),
    st.just(_PROGRESS),
    st.binary(max_size=60).map(lambda text: text.replace(b"\r", b"").replace(b"\n", b"") + b"\n"),
)


@given(st.lists(_LINES, max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_results_do_not_depend_on_how_lines_are_split(lines: list[bytes], cuts: list[bool]) -> None:
    blocks, block = [], b""
    for line, cut in zip(lines, cuts, strict=False):
        block += line
        if cut:
            blocks.append(block)
            block = b""
    assert _read(*blocks, block) == _read(b"".join(lines))


@given(st.dictionaries(st.integers(0, 20), st.lists(_LINES, max_size=4).map(b"".join), max_size=20))
def test_the_reason_is_one_line_for_any_output(output: dict[int, bytes]) -> None:
    assert "\n" not in _at_fault(output)
