"""An internal error in parsing a worker's output affects only that worker, which shows a warning."""

from __future__ import annotations

from pathlib import Path

from gmg_tui.model import WorkerState

from .harness import running, spec_for

_FAULTY = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    from gmg_tui.genesis.output.reader import Reader
    feed = Reader.feed
    def faulty(self, block, *more):
        if b"poison" in block:
            raise ZeroDivisionError
        return feed(self, block, *more)
    Reader.feed = faulty
"""
_SCRIPT = """
import sys
print("poison" if sys.argv[1] == "0" else "water")
for number in range(20000):
    print("line", number)
print("[Genesis] [07:00:00] [INFO] Running at 12.00 FPS (1.00 FPS per env, 12 envs).")
"""


async def test_a_parser_error_does_not_affect_the_end_of_its_worker(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAULTY)
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    spec = spec_for("{i}", script=str(script), cpu=2)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until(lambda snapshot: snapshot.ended)
        poisoned, well = run.snapshot.workers
        assert {poisoned.state, well.state} == {WorkerState.FINISHED}
        assert any("could not be parsed (internal error: ZeroDivisionError)" in text for text in poisoned.warnings)
        assert not well.warnings
        for worker, first in ((poisoned, b"poison"), (well, b"water")):
            assert run.output(worker.slot).splitlines()[:2] == [first, b"line 0"]
            assert run.output(worker.slot).count(b"\n") == 20002
    assert run.log().count("Traceback") == 1
