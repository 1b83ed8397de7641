"""Lines as torch's NCCL process group writes them (2.13: `ProcessGroupNCCL.cpp`), each with its line end."""

from __future__ import annotations


def _head(rank: int, line: int) -> str:
    return f"[rank{rank}]:[E1122 20:32:23.955028747 ProcessGroupNCCL.cpp:{line}] "


def _in_group(rank: int, group: str) -> str:
    return f"[PG ID 0 PG GUID {group} Rank {rank}] "


def timed_out(rank: int, number: int, operation: str = "ALLREDUCE", ms: int = 600_063) -> bytes:
    """`checkTimeout`."""
    work = f"WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000)"
    text = f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {ms} milliseconds"
    return f"{_head(rank, 757)}{text} before timing out.\n".encode()


def detected(rank: int, number: int, enqueued: int, completed: int, group: str = "0(default_pg)") -> bytes:
    """`watchdogHandler`."""
    status = f"PG status: last enqueued work: {enqueued}, last completed work: {completed}"
    text = f" failure detected by watchdog at work sequence id: {number} {status}"
    return f"{_head(rank, 2395)}{_in_group(rank, group)}{text}\n".encode()


def dump_signal(rank: int, by: str, enqueued: int, completed: int, group: str = "0(default_pg)") -> bytes:
    """`getNCCLWatchdogTimeoutErrorMsg`."""
    works = f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
    return (
        f"{_head(rank, 1987)}{_in_group(rank, group)}Received a dump signal due to a collective timeout from {by} and we "
        f"will try our best to dump the debug info. {works}This is most likely caused by incorrect usages of collectives, "
        "e.g., wrong sizes used across ranks, the order of collectives is not same for all ranks or the scheduled "
        "collective, for some reason, didn't run. Additionally, this can be caused by GIL deadlock or other reasons such "
        "as network errors or bugs in the communications library (e.g. NCCL), etc. \n"
    ).encode()


def watchdog_stuck(rank: int, seconds: int = 480) -> bytes:
    """`HeartbeatMonitor::runLoop`."""
    text = f"ProcessGroupNCCL's watchdog got stuck for {seconds} seconds without making progress in monitoring enqueued"
    return f"{_head(rank, 1745)}{_in_group(rank, '0(default_pg)')}{text} collectives. This typically indicates …\n".encode()


def clients_joined(joined: int, size: int, seconds: int = 600) -> bytes:
    """`TCPStore::waitForWorkers`, as Python prints it."""
    text = f"Timed out after {seconds + 1} seconds waiting for clients. {joined}/{size} clients joined."
    return f"torch.distributed.DistStoreError: {text}\n".encode()
