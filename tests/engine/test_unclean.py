"""Scripts that end with exit code 0 after an exception, report numbers that are not finite, or save to one file."""

import json
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import RestartMode, WorkerState
from gmg_tui.results.report import sort_jobs
from gmg_tui.session.store import reader
from tests.workers import texts

from .harness import program, running, spec_for, sweep_for

UNCLEAN = """\
import os, traceback
try:
    raise KeyError("joint")
except KeyError:
    traceback.print_exc()
os._exit(0)
"""


async def test_a_traceback_before_exit_code_0_is_a_warning_and_fails_a_job(tmp_path: Path) -> None:
    script = tmp_path / "unclean.py"
    script.write_text(UNCLEAN)
    async with running(spec_for(script=str(script))) as run:
        await run.until(lambda snapshot: snapshot.ended)
        worker = run.worker("cpu0")
    assert (worker.state, texts(worker.alerts)) == (WorkerState.FINISHED, ("exit code 0 after KeyError: 'joint'",))
    async with running(sweep_for([{"x": 1}], program(script=str(script), cpu=1))) as run:
        queue = await run.until_done()
    (job,) = reader.load_jobs(run.folder / session.STORE)
    assert (queue.failed, job.reason) == (1, "exit code 0 after KeyError: 'joint'")
    script.write_text(f"print('iteration 3/3 loss 0.5', flush=True)\n{UNCLEAN}")
    async with running(sweep_for([{"x": 1}], program(script=str(script), cpu=1))) as run:
        queue = await run.until_done()
    assert queue.finished == 1, "all work was done; a thread may have failed afterwards"


@pytest.mark.parametrize(
    ("end", "is_unclean"),
    [
        ("print('saved'); traceback.print_exc()", False),
        ("traceback.print_exc(); sys.exit(0)", False),
        ("traceback.print_exc(); os.fork() or sys.exit(0); os.wait()", False),
        ("traceback.print_exc(); os._exit(0)", True),
        ("atexit.register(os._exit, 0); raise", True),
        ("sys.excepthook = lambda *error: (traceback.print_exception(*error), os._exit(0)); raise", True),
        ("subprocess.run([sys.executable, '-c', 'print(1 / 0)'])", True),
        ("(t := threading.Thread(target=lambda: 1 / 0)).start(); t.join()", True),
        ("(p := multiprocessing.get_context('fork').Process(target=int, args=['x'])).start(); p.join()", True),
        ("asyncio.run(unawaited())", True),
    ],
)
async def test_a_caught_exception_is_told_from_an_uncaught_one(tmp_path: Path, end: str, is_unclean: bool) -> None:
    """The order of lines on two pipes is not known: only the probe knows how Python ended."""
    script = tmp_path / "ends.py"
    script.write_text(
        "import asyncio, atexit, multiprocessing, os, subprocess, sys, threading, traceback\n"
        "async def unawaited(): asyncio.create_task(failing()); await asyncio.sleep(0.01)\n"
        "async def failing(): int('x')\n"
        f"try: raise ConnectionError('upload failed')\nexcept ConnectionError: {end}\n"
    )
    async with running(sweep_for([{"x": 1}], program(script=str(script), cpu=1))) as run:
        queue = await run.until_done()
    assert (queue.failed, queue.finished) == (int(is_unclean), int(not is_unclean))


@pytest.mark.parametrize(
    ("end", "attempts"), [("signal.raise_signal(signal.SIGSEGV)", 2), ("atexit.register(crash)", 1)]
)
async def test_a_script_that_crashes_after_its_end_is_not_repeated(tmp_path: Path, end: str, attempts: int) -> None:
    """As simulators do at their shutdown, after hours of work."""
    script = tmp_path / "crash.py"
    # A destructor that runs after Python's own last functions.
    script.write_text(
        "import atexit, ctypes, os, signal, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "crash = lambda: libc['__cxa_atexit'](ctypes.cast(libc.abort, ctypes.c_void_p), None, None)\n"
        f"{end}\n"
    )
    spec = spec_for(script=str(script), restart=RestartMode.FAILURE, max_restarts=1)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        worker = run.worker("cpu0")
    assert (worker.state, worker.attempt) == (WorkerState.FAILED, attempts)
    assert ("crashed after the script's end" in (worker.advice or "")) is (attempts == 1)


DIVERGED = """\
import sys
print("Mean reward: 6", flush=True)
if sys.argv[1] == "1":
    print("Mean reward: nan", flush=True)
    print('gmg:result {"score": inf}', flush=True)
else:
    print('gmg:result {"score": 1}', flush=True)
"""


async def test_a_diverged_job_shows_it_and_ranks_last(tmp_path: Path) -> None:
    script = tmp_path / "diverged.py"
    script.write_text(DIVERGED)
    batch = program("{x}", script=str(script), cpu=1)
    async with running(sweep_for([{"x": 1}, {"x": 2}], batch)) as run:
        await run.until_done()
    jobs = reader.load_jobs(run.folder / session.STORE)
    assert [str((job.result or {})["reward"]) for job in jobs] == ["nan", "6.0"]
    for best in ("reward", "-score"):
        assert [job.number for job in sort_jobs(jobs, best)[0]] == [2, 1]
    assert ",nan" in (run.folder / "summary_results.csv").read_text()
    results = json.loads((run.folder / "detailed_results.json").read_text())["jobs"][0]["result"]
    assert results == {"reward": None, "score": None}


async def test_workers_that_say_they_have_saved_the_same_file_collide(tmp_path: Path) -> None:
    script = tmp_path / "saves.py"
    script.write_text("import time\nprint('Saved model to runs/model_1.pt', flush=True)\ntime.sleep(1000)\n")
    async with running(spec_for(script=str(script), cwd=str(tmp_path), cpu=2)) as run:
        snapshot = await run.until(lambda _: all(run.worker(slot).alerts for slot in ("cpu0", "cpu1")))
    for worker in snapshot.workers:
        assert texts(worker.alerts) == (f"cpu0 and cpu1 write {tmp_path}/runs/model_1.pt",)
