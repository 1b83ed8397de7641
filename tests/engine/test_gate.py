"""Which worker may start when."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gmg_tui.engine.attempts import gate
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.genesis import quiet_signs
from gmg_tui.genesis.quiet_signs import QuietSigns
from gmg_tui.model import Phase, StartMode


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that end at once."""
    monkeypatch.setattr(gate, "TIMEOUT_S", 0.02)
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    monkeypatch.setattr(gate, "STAGGER_S", 0.01)


@pytest.fixture
def signs(tmp_path: Path) -> QuietSigns:
    """Of a mesh cache that is empty, in `tmp_path`."""
    return QuietSigns(tmp_path)


def _unheard(_: str) -> None:
    """Takes what a gate says while somebody waits."""


def test_together_nobody_waits(signs: QuietSigns) -> None:
    ours = Gate(StartMode.TOGETHER, signs)
    assert [ours.enter(slot) for slot in ("gpu0", "gpu1")] == [None, None]


async def test_the_first_that_asks_goes_first_and_opens_the_gate(signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    assert ours.enter("gpu3") is None
    assert ours.enter("gpu0") == "for gpu3 to write the mesh caches"
    waiting = asyncio.create_task(ours.wait("gpu0", _unheard))
    ours.heard("gpu0", Phase.COMPILING)
    ours.heard("gpu3", Phase.IMPORTING)
    await asyncio.sleep(0)
    assert not waiting.done()
    ours.heard("gpu3", Phase.COMPILING)
    await waiting
    assert ours.enter("gpu1") is None


async def test_the_others_may_start_once_the_first_is_with_genesis_and_are_held_there(signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.enter("gpu1")
    starting = asyncio.create_task(ours.wait("gpu1", _unheard))
    ours.heard("gpu0", Phase.INITIALISING)
    await starting
    assert ours.enter("gpu2") is None
    assert ours.holds("gpu0", Phase.CREATING) is None
    assert ours.holds("gpu1", Phase.IMPORTING) is None
    assert ours.holds("gpu1", Phase.INITIALISING) == "for gpu0 to write the mesh caches"
    held = asyncio.create_task(ours.opened("gpu1", _unheard))
    ours.heard("gpu0", Phase.BUILDING)
    await asyncio.sleep(0)
    assert not held.done()
    ours.heard("gpu0", Phase.COMPILING)
    await held
    assert ours.holds("gpu1", Phase.INITIALISING) is None


async def test_a_first_worker_that_ends_lets_the_others_go(signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.ended("gpu0")
    assert ours.enter("gpu1") is None


async def test_one_that_a_person_ends_leaves_the_lead_to_the_next(signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    waits = [ours.enter(slot) for slot in ("gpu1", "gpu2")]
    assert waits == ["for gpu0 to write the mesh caches"] * 2
    starting = asyncio.create_task(ours.wait("gpu1", _unheard))
    await asyncio.sleep(0)
    ours.left("gpu0")
    await starting
    assert ours.holds("gpu0", Phase.INITIALISING) == "for gpu1 to write the mesh caches"
    assert ours.holds("gpu2", Phase.INITIALISING) == "for gpu1 to write the mesh caches"
    said: list[str] = []
    held = asyncio.create_task(ours.opened("gpu2", said.append))
    await asyncio.sleep(0)
    assert said == ["for gpu1 to write the mesh caches"]
    ours.left("gpu1")
    await held
    assert ours.holds("gpu0", Phase.INITIALISING) == "for gpu2 to write the mesh caches"
    ours.left("gpu2")
    ours.left("gpu0")
    assert ours.enter("gpu1") is None
    assert ours.enter("gpu0") == "for gpu1 to write the mesh caches"


async def test_a_script_that_builds_no_scene_is_not_waited_for_long(hurried: None, signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.enter("gpu1")
    await ours.wait("gpu1", _unheard)
    assert ours.enter("gpu2") is None


async def test_one_that_builds_a_scene_is_waited_for_longer(hurried: None, signs: QuietSigns) -> None:
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.heard("gpu0", Phase.MESHES)
    held = asyncio.create_task(ours.opened("gpu1", _unheard))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(held), 10 * gate.TIMEOUT_S)
    ours.heard("gpu0", Phase.COMPILING)
    await held


async def test_one_that_builds_for_ever_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, signs: QuietSigns
) -> None:
    monkeypatch.setattr(gate, "LONGEST_S", 0.02)
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.heard("gpu0", Phase.MESHES)
    await ours.opened("gpu1", _unheard)
    assert ours.holds("gpu1", Phase.INITIALISING) is None


async def test_staggered_a_slot_waits_for_its_first_worker_alone(hurried: None, signs: QuietSigns) -> None:
    ours = Gate(StartMode.STAGGERED, signs)
    assert ours.enter("gpu0") is None
    assert ours.enter("gpu1") is not None
    await ours.wait("gpu1", _unheard)
    assert ours.enter("gpu1") is None, "its next job starts at once"


async def test_a_silent_first_worker_is_waited_for_until_its_meshes_rest(
    monkeypatch: pytest.MonkeyPatch, signs: QuietSigns, tmp_path: Path
) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    monkeypatch.setattr(quiet_signs, "REST_S", 0.1)
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    starting = asyncio.create_task(ours.wait("gpu1", _unheard))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(starting), 0.5)
    (tmp_path / "gsd").mkdir()
    (tmp_path / "gsd" / "link0.gsd").write_bytes(b"mesh")
    await starting
    assert ours.enter("gpu2") is None


async def test_a_warning_does_not_make_a_silent_worker_one_that_speaks(
    monkeypatch: pytest.MonkeyPatch, signs: QuietSigns, tmp_path: Path
) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    monkeypatch.setattr(quiet_signs, "REST_S", 0.0)
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.enter("gpu1")
    ours.heard("gpu0", Phase.AT_WORK)
    assert ours.holds("gpu1", Phase.AT_WORK) == "for gpu0 to write the mesh caches"
    assert not signs.written([]), "this is how the cache was"
    held = asyncio.create_task(ours.opened("gpu1", _unheard))
    (tmp_path / "link0.gsd").write_bytes(b"mesh")
    await held


async def test_a_worker_that_says_what_it_does_is_believed_though_its_meshes_rest(
    monkeypatch: pytest.MonkeyPatch, signs: QuietSigns, tmp_path: Path
) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    monkeypatch.setattr(quiet_signs, "REST_S", 0.0)
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.heard("gpu0", Phase.MESHES)
    assert not signs.written([]), "this is how the cache was"
    held = asyncio.create_task(ours.opened("gpu1", _unheard))
    (tmp_path / "link0.gsd").write_bytes(b"mesh")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(held), 0.3)
    ours.heard("gpu0", Phase.COMPILING)
    await held


async def test_a_silent_worker_that_has_loaded_the_compiler_and_writes_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, signs: QuietSigns
) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    monkeypatch.setattr(quiet_signs, "NOTHING_S", 0.05)
    monkeypatch.setattr(quiet_signs, "_COMPILERS", (b"/libc",))
    ours = Gate(StartMode.GATED, signs)
    ours.enter("gpu0")
    ours.enter("gpu1")
    starting = asyncio.create_task(ours.wait("gpu1", _unheard))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(starting), 0.3)
    ours.began("gpu0", lambda: [os.getpid()])
    await starting
