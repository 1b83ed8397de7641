"""`stop`: end running sessions."""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

import click

from gmg_tui import session as sessions
from gmg_tui.cli.attach import await_end, is_terminal
from gmg_tui.cli.printing import note
from gmg_tui.engine.notify import FINISH_TIMEOUT_S
from gmg_tui.model import RunSpec, Session, Snapshot, WorkerState, units
from gmg_tui.model.errors import GmgError, join_words
from gmg_tui.scripts.torchrun import stop_timeout_s
from gmg_tui.session.client import ANSWER_TIMEOUT_S, EngineClient
from gmg_tui.session.protocol import Update

_MIN_CONFIRM_S = 60.0
"""Run time above which stopping an unnamed session needs a confirmation."""
_UNKILLABLE_PREFIX = "survives SIGKILL"
"""Prefix of a worker's reason if its killed process is stuck in the kernel."""
_END_TIMEOUT_S = 30.0
"""Timeout for an engine to write its files and exit after its workers."""


def stop(names: tuple[str, ...], *, everything: bool) -> int:
    """Stops sessions in parallel, and waits for each engine to exit, unless other clients keep it running; returns 0.

    Prints which workers ignore SIGINT. A second ctrl+c kills the workers. Raises `GmgError`.
    """
    if everything and names:
        raise GmgError("--all stops all running sessions; leave out the names")
    sessions.clear_lost(note)
    errors = asyncio.run(_stop(_select(names, everything=everything)))
    for error in errors[:-1]:
        note(f"gmg-tui: {error}")
    if errors:
        raise errors[-1]
    return 0


def _select(names: tuple[str, ...], *, everything: bool) -> list[sessions.SessionEntry]:
    """Returns the sessions to stop; asks about an unnamed one that has been running for long. Raises `GmgError`."""
    if names:
        return [sessions.find(name, running=True) for name in dict.fromkeys(names)]
    running = [entry for entry in sessions.list_sessions() if entry.runs_here]
    if len(running) > 1 and not everything:
        names_text = ", ".join(entry.name for entry in running)
        raise GmgError(f"{len(running)} sessions are running: {names_text}; give their names, or --all")
    for entry in running if is_terminal() and not everything else ():
        ran_s = time.time() - entry.record.session.started
        loses_work = ran_s > _MIN_CONFIRM_S and any(worker.state.live for worker in entry.record.workers)
        if loses_work and not click.confirm(f"stop {entry.name}, running for {units.span(ran_s)}?", err=True):
            raise GmgError("nothing was stopped", 1)
    return running or [sessions.find(None, running=True)]


async def _stop(entries: list[sessions.SessionEntry]) -> list[GmgError]:
    """Stops sessions, and waits for their engines. Returns the errors."""
    clients, kill_tasks, interrupted = set[EngineClient](), set[asyncio.Task[None]](), False

    def interrupt() -> None:
        nonlocal interrupted
        note("killing" if interrupted else "ctrl+c again kills the workers, or gives up unwritten results")
        kill_tasks.update(asyncio.create_task(_request_end(client, kill=True)) for client in clients if interrupted)
        interrupted = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    errors = await asyncio.gather(*(_stop_session(entry, clients) for entry in entries), return_exceptions=True)
    for error in errors:
        if error is not None and not isinstance(error, GmgError):
            raise error
    return [error for error in errors if isinstance(error, GmgError)]


async def _request_end(client: EngineClient, *, kill: bool) -> None:
    """Asks an engine to stop or kill its workers; ignores an engine that is gone."""
    with suppress(GmgError):
        await client.end(kill=kill)


async def _stop_session(entry: sessions.SessionEntry, clients: set[EngineClient]) -> None:
    """Stops a session's workers, with a client in `clients`, then waits for its engine. Raises `GmgError`."""
    session = entry.record.session
    note(f"stopping {entry.name}")
    client = await EngineClient.connect(Path(session.spec.socket), session.id)
    snapshot, printed_text = client.welcome.snapshot, ""
    clients.add(client)
    request = asyncio.create_task(_request_end(client, kill=False))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S) as timeout:  # an engine sends something each second
            async for event in client.events():
                timeout.reschedule(asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S)
                if isinstance(event, Update):
                    snapshot = event.snapshot
                    if (text := _delay_text(snapshot)) not in {printed_text, ""}:
                        printed_text = text
                        note(text)
                    if snapshot.ended:
                        break
    except TimeoutError:
        hint = _unfreeze_hint(session, work_ended=snapshot.work_ended)
        raise GmgError(f"the engine of {entry.name} has not answered for {ANSWER_TIMEOUT_S:.0f} s{hint}", 1) from None
    finally:
        clients.discard(client)
        await client.close()
        await request
    if snapshot.ended and snapshot.clients > 1:
        clients_text = units.count(snapshot.clients - 1, "client")
        note(
            f"all workers of {entry.name} have ended; the engine exits when its last client detaches ({clients_text} left)"
        )
    else:
        extra_s = stop_timeout_s(session.spec) if session.spec.nodes is not None else 0.0  # the agents end first
        extra_s += FINISH_TIMEOUT_S if session.spec.notify else 0.0
        if not await asyncio.to_thread(await_end, entry.folder, _END_TIMEOUT_S + extra_s):
            hint = _unfreeze_hint(session, work_ended=True)
            raise GmgError(f"all workers of {entry.name} have ended, but not its engine{hint}", 1)
        if (ended := sessions.inspect(entry.folder)) is not None and ended.state == "lost":
            raise GmgError(ended.remark, 1)
        note(f"{entry.name} has ended")
    _warn_of_lost_nodes(snapshot, session.spec)
    reasons = [(worker.slot, worker.reason or "") for worker in snapshot.workers]
    if survivors := [f"{slot} {reason}" for slot, reason in reasons if reason.startswith(_UNKILLABLE_PREFIX)]:
        raise GmgError("; ".join(survivors), 1)
    if snapshot.tuning is not None and snapshot.tuning.stopped:
        note(sessions.resume_hint(session.spec))
    elif snapshot.tuning is None and snapshot.queue is not None and snapshot.queue.waiting:
        note(f"{units.count(snapshot.queue.waiting, 'job')} left; {sessions.resume_hint(session.spec)}")


def _delay_text(snapshot: Snapshot) -> str:
    """Returns the reason that a session has not ended: workers that ignore SIGINT, or the disk; empty if unknown."""
    if snapshot.is_saving:
        return "; ".join(alert.text for alert in snapshot.alerts if alert.kind == "disk")
    signals = {worker.slot: worker.signal_sent for worker in snapshot.workers if worker.state is WorkerState.STOPPING}
    ignoring = [f"{slot} ({sent})" for slot, sent in signals.items() if sent and sent != signal.SIGINT.name]
    return f"still running: {', '.join(ignoring)}" if ignoring else ""


def _warn_of_lost_nodes(snapshot: Snapshot, spec: RunSpec) -> None:
    """Prints a warning about the workers on lost nodes, which the engine cannot stop."""
    if lost := [node.name for node in snapshot.nodes if node.lost_since is not None]:
        from gmg_tui.engine.nodes.states import orphan_end_s  # only for a session with nodes

        wait = f"workers there may run on for {units.span(orphan_end_s(spec))}; do not continue the session before"
        note(f"{join_words(lost)} {'is' if len(lost) == 1 else 'are'} lost: {wait}")


def _unfreeze_hint(session: Session, *, work_ended: bool) -> str:
    """Returns advice for an unresponsive engine, to append to a message."""
    pid = session.engine_pid
    kill = "to end it and its workers"
    if work_ended:
        kill = f"it may be writing the results (see {session.spec.folder}/engine.log); to end it without them"
    return f"; if it is stopped (SIGSTOP): kill -CONT {pid}; {kill}: kill -KILL {pid}"
