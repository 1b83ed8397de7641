"""`share`, `attach USER/NAME` and `attach --readonly`, as real processes, and as another user."""

from __future__ import annotations

import asyncio
import grp
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gmg_tui import shares
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from tests.cli.scripted import ROOT, environ
from tests.engine.harness import Running, own_name, running, spec_for
from tests.terminal.screen import Terminal

NOBODY = 65534
NEVER = ("--lines", "0")
GROUP = "games"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


async def _gmg(*words: str) -> tuple[str, str, int | None]:
    command = (sys.executable, "-m", "gmg_tui", *words)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, env=environ())
    out, err = await process.communicate()
    return out.decode(), err.decode(), process.returncode


@asynccontextmanager
async def _running() -> AsyncIterator[Running]:
    async with running(spec_for(*NEVER, cpu=2, name=own_name())) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        yield run


_DAC_READ_SEARCH = 2
"""A bit of `CapBnd` (capability.h)."""


def _readable_by_all() -> bool:
    return all(
        folder.stat().st_mode & 0o005 == 0o005
        for one in (ROOT, Path(sys.executable).resolve())
        for folder in one.parents
    )


def _may_read_all() -> bool:
    known = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(known["CapBnd"], 16) >> _DAC_READ_SEARCH & 1)


_READING = () if _readable_by_all() else ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""Another user may read the program wherever it is installed, but connect to nothing that is not theirs."""
as_guest = pytest.mark.skipif(
    os.getuid() != 0 or not (_readable_by_all() or _may_read_all()), reason="no other user can run the program here"
)


def _as(group: int) -> tuple[str, ...]:
    """A command that becomes another user, of one group."""
    user = (f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups")
    return ("setpriv", *user, *_READING, sys.executable, "-m", "gmg_tui")


@as_root
async def test_share_prints_the_address_and_stop_ends_it() -> None:
    async with _running() as run:
        name = run.spec.name
        out, err, status = await _gmg("share", name, "--group", GROUP)
        assert (out, status) == (f"gmg-tui attach root/{name}\n", 0)
        assert f"{name} may be looked at by the group {GROUP}" in err
        assert name in shares.shared_by(0)
        shares.check(shares.parse(f"root/{name}"))
        assert await _gmg("share", "--stop") == ("", f"{name} is not shared any more\n", 0)
        assert await _gmg("share", "--stop") == ("", f"gmg-tui: {name} is not shared\n", 1)
        out, err, status = await _gmg("attach", f"root/{name}")
        assert (out, status) == ("", 1)
        assert err.startswith(f"gmg-tui: root does not share a session {name}; root shares: ")


async def test_wrong_input_is_told_in_one_line() -> None:
    cases = {
        ("share", "--group", "no-such-group"): (
            "gmg-tui: --group no-such-group: there is no such group on this machine",
            2,
        ),
        ("share",): ("gmg-tui: share: give either --group GROUP, whose users may look, or --stop", 2),
        ("share", "--stop", "--group", "x"): (
            "gmg-tui: share: give either --group GROUP, whose users may look, or --stop",
            2,
        ),
        ("attach", "no-such-user/x"): ("gmg-tui: no-such-user/x: there is no user no-such-user on this machine", 1),
        ("attach", "/x"): ("gmg-tui: /x: there is no user without a name on this machine", 1),
        ("attach", "4242/x"): ("gmg-tui: 4242 does not share a session x; 4242 shares: none", 1),
        ("attach", "4242/"): ("gmg-tui: 4242/: give USER/NAME; 4242 shares: none", 1),
        ("attach", "4242/../x"): ("gmg-tui: 4242/../x: give USER/NAME; 4242 shares: none", 1),
    }
    for words, (line, status) in cases.items():
        assert await _gmg(*words) == ("", f"{line}\n", status), words


@as_root
async def test_a_share_that_a_killed_engine_has_left_is_cleared_away() -> None:
    async with _running() as run:
        assert (await _gmg("share", run.spec.name, "--group", GROUP))[2] == 0
        run.process.kill()
        await run.process.wait()
        folder = shares.path_of(0, run.spec.name).parent
        assert folder.exists()
        await _gmg("ls")
        assert not folder.exists()


@as_guest
@pytest.mark.terminal
async def test_another_user_looks_and_steers_nothing() -> None:
    async with _running() as run:
        name = run.spec.name
        assert (await _gmg("share", name, "--group", GROUP))[2] == 0
        env = {"HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}

        def look() -> None:
            of_group = _as(grp.getgrnam(GROUP).gr_gid)
            with Terminal("attach", f"root/{name}", env=env, command=of_group, cwd="/") as guest:
                guest.until("read-only", "cpu0 log", "shared with the group")
                guest.press("x")
                guest.until("This screen is read-only")
                guest.press("q")
                guest.until(f"return with: gmg-tui attach root/{name}")
                assert guest.until_ended() == 0
            with Terminal("attach", f"root/{name}", env=env, command=_as(NOBODY), cwd="/") as stranger:
                stranger.until(lambda text: "Permission denied" in text or "which you are not in" in text)
                assert stranger.until_ended() == 1

        await asyncio.to_thread(look)
        assert [worker.attempt for worker in run.snapshot.workers] == [1, 1]
        assert run.worker("cpu0").state is WorkerState.RUNNING


@as_guest
@pytest.mark.terminal
async def test_a_guest_is_told_when_the_owner_stops_sharing() -> None:
    async with _running() as run:
        name = run.spec.name
        assert (await _gmg("share", name, "--group", GROUP))[2] == 0
        env = {"HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
        of_group = _as(grp.getgrnam(GROUP).gr_gid)
        guest = await asyncio.to_thread(
            lambda: Terminal("attach", f"root/{name}", env=env, command=of_group, cwd="/").__enter__()
        )
        try:
            await asyncio.to_thread(guest.until, "read-only", "cpu0 log")
            assert (await _gmg("share", name, "--stop"))[2] == 0
            await asyncio.to_thread(guest.until, f"gmg-tui: root/{name}: its owner does not share it any more")
        finally:
            await asyncio.to_thread(guest.close)


@pytest.mark.terminal
async def test_attach_readonly_looks_and_leaves() -> None:
    async with _running() as run:

        def look() -> None:
            with Terminal("attach", "--readonly", run.spec.name) as terminal:
                terminal.until("read-only", "cpu0 log")
                terminal.press(*"xXrR")
                terminal.until("This screen is read-only")
                terminal.press("\x03")
                terminal.until(f"return with: gmg-tui attach --readonly {run.spec.name}")

        await asyncio.to_thread(look)
        assert [worker.attempt for worker in run.snapshot.workers] == [1, 1]


def test_a_number_is_a_group_and_a_user_too() -> None:
    assert shares.group_of("4711") == 4711
    assert shares.parse("4711/sim-1") == shares.Address("4711", 4711, "sim-1")
    for wrong in ("-1", "4294967295", "٣", ""):
        with pytest.raises(GmgError, match="no such group"):
            shares.group_of(wrong)
