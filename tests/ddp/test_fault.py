"""Which rank is at fault when a collective does not end."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ddp.fault import at_fault
from gmg_tui.ddp.observations import Observations

from . import nccl_lines


def _seen(output_by_rank: Mapping[int, bytes]) -> dict[int, Observations]:
    found = {rank: Observations() for rank in output_by_rank}
    for rank, output in output_by_rank.items():
        found[rank].feed(output)
    return found


def _waits(
    rank: int, number: int, operation: str = "BROADCAST", enqueued: int | None = None, ms: int = 600_081
) -> bytes:
    last = enqueued if enqueued is not None else number
    return nccl_lines.timed_out(rank, number, operation, ms) + nccl_lines.detected(rank, number, last, number - 1)


def test_a_rank_that_never_entered() -> None:
    output = {0: _waits(0, 79), 1: nccl_lines.dump_signal(1, " rank 0", 78, 78), 2: _waits(2, 79)}
    assert at_fault(_seen(output)) == "rank 1 never entered BROADCAST #79; the others have waited 600 s"


def test_of_two_ranks_the_other_has_waited() -> None:
    output = {0: nccl_lines.dump_signal(0, " rank 1", -1, -1), 1: _waits(1, 1, "ALLREDUCE")}
    assert at_fault(_seen(output)) == "rank 0 never entered ALLREDUCE #1; the other has waited 600 s"


def test_a_rank_that_is_behind_but_has_entered() -> None:
    output = {0: _waits(0, 78, enqueued=90), 1: _waits(1, 78, enqueued=80)}
    assert (
        at_fault(_seen(output))
        == "rank 1 is behind: its last collective is #80, others have entered #90; BROADCAST #78 has timed out after 600 s"
    )


def test_a_rank_that_says_nothing_is_the_one_for_which_the_others_wait() -> None:
    output = {0: _waits(0, 5), 1: _waits(1, 5), 2: b"Learning iteration 3/10\n", 3: b""}
    assert at_fault(_seen(output)) == "ranks 2 and 3 did not report BROADCAST #5; the others have waited 600 s"


def test_no_rank_is_at_fault_where_all_have_entered() -> None:
    told = at_fault(_seen({0: _waits(0, 5), 1: _waits(1, 5)}))
    assert told is not None
    assert told.startswith("all ranks entered BROADCAST #5, and it did not end within 600 s: ")


def test_ranks_that_entered_different_collectives() -> None:
    output = {0: _waits(0, 5), 1: _waits(1, 5, "ALLREDUCE"), 2: _waits(2, 5)}
    assert (
        at_fault(_seen(output))
        == "the ranks have entered different collectives as #5: ranks 0 and 2 BROADCAST, rank 1 ALLREDUCE"
    )


def test_the_process_group_that_failed_is_looked_at_and_no_other() -> None:
    idle = nccl_lines.dump_signal(0, " rank 1", 1, 1)
    tensor = nccl_lines.timed_out(1, 9) + nccl_lines.detected(1, 9, 9, 8, "tp")
    behind = nccl_lines.dump_signal(1, "this local rank", 500, 500)
    output = {0: idle + nccl_lines.detected(0, 8, 8, 7, "tp"), 1: tensor + behind}
    assert (at_fault(_seen(output)) or "").startswith("rank 0 ")


def test_the_same_number_in_two_process_groups_is_not_the_same_collective() -> None:
    tensor = nccl_lines.timed_out(1, 5, "ALLREDUCE") + nccl_lines.detected(1, 5, 5, 4, "tp")
    output = {0: _waits(0, 5), 1: tensor, 2: _waits(2, 5)}
    assert "different collectives" not in (at_fault(_seen(output)) or "")


def test_ranks_that_did_not_meet() -> None:
    output = {0: nccl_lines.clients_joined(3, 4), 1: b"", 2: b"", 3: b""}
    assert at_fault(_seen(output)) == "only 3 of 4 ranks came to the group's store within 601 s"


def test_a_watchdog_that_is_stuck() -> None:
    told = at_fault(_seen({0: b"", 1: nccl_lines.watchdog_stuck(1)}))
    assert told is not None
    assert told.startswith("rank 1: NCCL's watchdog has not moved for 480 s")


def test_ranks_that_say_nothing() -> None:
    assert at_fault({}) is None
    assert at_fault(_seen({0: b"", 1: b"all is well\n"})) is None
    alike = {rank: nccl_lines.dump_signal(rank, " rank 9", 7, 7) for rank in range(2)}
    assert at_fault(_seen(alike)) is None


@given(st.integers(2, 12), st.data())
def test_exactly_the_ranks_with_the_lowest_enqueued_collective_are_named(size: int, data: st.DataObject) -> None:
    late = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=min(8, size - 1)))
    reached = data.draw(st.integers(0, 1000))
    ahead = {rank: reached + data.draw(st.integers(1, 9)) for rank in range(size) if rank not in late}
    output = {
        rank: _waits(rank, reached + 1, enqueued=ahead[rank])
        if rank in ahead
        else nccl_lines.dump_signal(rank, " rank 0", reached, reached)
        for rank in range(size)
    }
    names = [str(rank) for rank in sorted(late)]
    named = f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]}"
    told = at_fault(_seen(output)) or ""
    assert told.startswith(f"{named} never entered BROADCAST #{reached + 1}; the other")


@given(
    st.dictionaries(
        st.integers(0, 20),
        st.lists(
            st.one_of(
                st.builds(nccl_lines.timed_out, st.just(0), st.integers(0, 9), st.sampled_from(["ALLREDUCE", "SEND"])),
                st.builds(nccl_lines.detected, st.just(0), st.integers(0, 9), st.integers(-1, 9), st.integers(-1, 9)),
                st.builds(nccl_lines.dump_signal, st.just(0), st.just("x"), st.integers(-1, 9), st.integers(-1, 9)),
                st.builds(nccl_lines.clients_joined, st.integers(0, 9), st.integers(0, 9)),
            ),
            max_size=4,
        ).map(b"".join),
        max_size=20,
    )
)
def test_whatever_they_say_it_is_one_sentence_or_none(output: dict[int, bytes]) -> None:
    told = at_fault(_seen(output))
    assert told is None or (told and "\n" not in told)
