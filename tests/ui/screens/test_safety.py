"""Nothing that a worker, a stranger's process or the engine says is markup or terminal control on any screen."""

from __future__ import annotations

import msgspec
import pytest

from gmg_tui.model import Attempt, Gpu, GpuProcess, GpuSample, RunSpec, WorkerState
from gmg_tui.ui.drawing.appearance import safe
from tests.rates import rate
from tests.ui import play
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.stage import press
from tests.workers import reached

EVIL = stage.EVIL + " [/red \u2066\x9b31m\x08\x7f end"
WORDS = "[/] [bold] [/tmp/x]"
SECTIONS = "1234"


def _evil_engine() -> FakeEngine:
    hostile = Gpu(0, EVIL, EVIL, EVIL, 81559, 700.0)
    slots = (msgspec.structs.replace(stage.GPU_SESSION.slots[0], gpu=hostile), *stage.GPU_SESSION.slots[1:])
    metrics = reached(1, (EVIL,), rate(1.0))
    engine = stage.engine(
        reason=EVIL, advice=EVIL, warnings=(EVIL,), stuck=EVIL, device=EVIL, backend=EVIL, before=metrics, args=(EVIL,)
    )
    sample = GpuSample(EVIL, throttle=(EVIL,), error=EVIL)
    snapshot = msgspec.structs.replace(engine.snapshot, samples=(sample,))
    spec: RunSpec = msgspec.structs.replace(stage.GPU_SESSION.spec, name=EVIL, script=EVIL, args=(EVIL,))
    session = msgspec.structs.replace(stage.GPU_SESSION, slots=slots, spec=spec)
    engine.snapshot = snapshot
    engine.welcome = msgspec.structs.replace(engine.welcome, session=session, snapshot=snapshot)
    engine.details_of["gpu0"] = msgspec.structs.replace(
        stage.details(),
        command=("python", EVIL),
        cwd=EVIL,
        env={EVIL: EVIL},
        unset=(EVIL,),
        egl=EVIL,
        args=("-B", EVIL),
        extra_env={"A": EVIL},
        attempts=(Attempt(1, (EVIL,), 1, 0.0, 1.0, 1, WorkerState.FAILED, EVIL),),
        processes=(GpuProcess(7, EVIL, 1.0, EVIL, EVIL, 1.0),),
    )
    return engine


def _harmless(rows: list[str]) -> None:
    for row in rows:
        assert safe(row) == row
        assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in row)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(
    "keys",
    [
        *(["enter", section] for section in SECTIONS),
        ["p"],
        ["p", "x"],
        ["e"],
        ["e", "ctrl+s"],
        ["q"],
        ["question_mark"],
    ],
    ids=" ".join,
)
async def test_hostile_texts_are_shown_and_do_nothing(keys: list[str], ascii_only: bool) -> None:
    app = stage.app(_evil_engine(), ascii_only=ascii_only)
    seen: list[str] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, *keys)
        for key in ("down", "pagedown", "end"):
            seen += play.screen(app)
            await press(pilot, key)
        seen += play.screen(app)
    _harmless(seen)
    if ascii_only:
        assert "".join(seen).isascii()
    if keys != ["question_mark"]:
        assert WORDS in " ".join(" ".join(seen).split())


async def test_what_the_engine_refuses_is_shown_as_it_is() -> None:
    engine = stage.engine()
    app = stage.app(engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "enter")
        engine.refuse = EVIL
        await press(pilot, "r")
        await play.sees(pilot, WORDS)
        _harmless(play.screen(app))
