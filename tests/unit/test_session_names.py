"""What a session is called when nobody names it, and who may look into its folders."""

from __future__ import annotations

import os
import stat

import pytest

from gmg_tui import new_session
from gmg_tui import session as sessions


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("a/sim.py", "sim-1"),
        ("torch.distributed.run", "torch.distributed.run-1"),
        ("exp.v2.toml", "exp.v2-1"),
        ("pkg/", "pkg-1"),
        ("…", "session-1"),
    ],
)
def test_a_session_is_named_after_its_script_or_the_whole_of_its_module(script: str, name: str) -> None:
    assert new_session.create(None, script)[0] == name


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_sessions_folders_are_this_users_alone_whatever_the_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        _, folder = new_session.create(None, "sim.py")
    finally:
        os.umask(before)
    state = sessions.sessions_folder().parent
    made = (state.parent, state, sessions.sessions_folder(), folder, folder / sessions.LOGS)
    assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 5
