"""What is read from a rank's output of its collectives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ddp.observations import Joined, Observations, TimedOut, Works

from . import nccl_lines

_PROGRESS = b"[Genesis] [12:00:00] [INFO] Running at 1,000.00 FPS (10.00 FPS per env, 100 envs).\n"
_GROUP = "0(default_pg)"


def _read(*blocks: bytes) -> Observations:
    seen = Observations()
    for block in blocks:
        seen.feed(block)
    return seen


def test_a_collective_that_timed_out() -> None:
    seen = _read(_PROGRESS * 3 + nccl_lines.timed_out(1, 79, "BROADCAST", 600_081) + _PROGRESS)
    assert seen.timed_out == {79: TimedOut(79, "BROADCAST", 600_081)}
    assert seen.any


def test_how_far_a_rank_has_come_when_its_watchdog_fails() -> None:
    seen = _read(nccl_lines.detected(0, 78, 79, 77))
    assert (seen.works, seen.failed) == ({_GROUP: Works(79, 77)}, {_GROUP: 78})


def test_how_far_a_rank_has_come_that_hears_of_another_ones_timeout() -> None:
    seen = _read(nccl_lines.dump_signal(2, " rank 13", 56116, 56116))
    assert (seen.works, seen.failed) == ({_GROUP: Works(56116, 56116)}, {})


@pytest.mark.parametrize(
    ("line", "group", "works"),
    [
        (  # with the flight recorder, torch 2.13
            b"[rank3]:[E702 00:00:00.1 ProcessGroupNCCL.cpp:2395] [PG ID 3 PG GUID 7 Rank 3]  failure detected by watchdog"
            b" at work sequence id: 18 PG status: last enqueued work: 39, last started work: 19 (_ALLGATHER_BASE),"
            b" last completed work: 17\n",
            "7",
            Works(39, 17),
        ),
        (  # torch 2.3: the second number is what lies in memory
            b"[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1,"
            b" last completed NCCL work: 76280750235782912.\n",
            "0",
            Works(1, -1),
        ),
    ],
)
def test_other_forms_of_other_versions(line: bytes, group: str, works: Works) -> None:
    assert _read(line).works == {group: works}


def test_each_process_group_counts_for_itself() -> None:
    seen = _read(nccl_lines.detected(0, 3, 4, 2) + nccl_lines.detected(0, 90, 91, 89, "tp"))
    assert seen.works == {_GROUP: Works(4, 2), "tp": Works(91, 89)}
    assert seen.failed == {_GROUP: 3, "tp": 90}


def test_a_watchdog_that_is_stuck() -> None:
    assert _read(nccl_lines.watchdog_stuck(1)).watchdog_stuck_s == 480


def test_ranks_that_did_not_meet() -> None:
    assert _read(nccl_lines.clients_joined(1, 2)).joined == Joined(1, 2, 601)


def test_what_torch_itself_writes_when_ranks_do_not_meet() -> None:
    distributed = pytest.importorskip("torch.distributed")
    with pytest.raises(distributed.DistStoreError) as raised:
        distributed.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=1))
    joined = _read(f"torch.distributed.DistStoreError: {raised.value}\n".encode()).joined
    assert joined is not None
    assert (joined.ranks, joined.size) == (1, 2)


def test_other_lines_tell_nothing() -> None:
    seen = _read(
        _PROGRESS,
        b"NCCL INFO Watchdog started; the last enqueued job was mine\n",
        b"[rank0]:[E1 ProcessGroupNCCL.cpp:681] [Rank 0] To avoid data inconsistency, we are taking the entire process down.\n",
    )
    assert not seen.any


_TELLING = st.one_of(
    st.builds(nccl_lines.timed_out, st.integers(0, 9), st.integers(0, 99)),
    st.builds(nccl_lines.detected, st.integers(0, 9), st.integers(0, 99), st.integers(-1, 99), st.integers(-1, 99)),
    st.builds(nccl_lines.dump_signal, st.just(1), st.just(" rank 3"), st.integers(-1, 99), st.integers(-1, 99)),
    st.builds(nccl_lines.clients_joined, st.integers(0, 9), st.integers(0, 9)),
    st.builds(nccl_lines.watchdog_stuck, st.integers(0, 9), st.integers(1, 9999)),
)
_OTHER = st.one_of(
    st.just(_PROGRESS), st.binary(max_size=60).map(lambda text: text.replace(b"\r", b"").replace(b"\n", b"") + b"\n")
)


@given(st.lists(st.one_of(_TELLING, _OTHER), max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_it_does_not_matter_how_lines_are_cut_into_blocks(lines: list[bytes], cuts: list[bool]) -> None:
    blocks, block = [], b""
    for line, cut in zip(lines, cuts, strict=False):
        block += line
        if cut:
            blocks.append(block)
            block = b""
    parted, whole = _read(*blocks, block), _read(b"".join(lines))
    assert vars(parted) == vars(whole)


@given(st.binary(max_size=300), st.integers(0, 299))
def test_no_bytes_are_too_much(noise: bytes, place: int) -> None:
    line = nccl_lines.detected(0, 1, 2, 3)
    _read(line[:place] + noise + line[place:], noise)
