"""Takes the pictures in this folder from real runs: `python screenshots/take.py [NAME ...]`.

Each picture is the interface itself, drawn by Textual without a terminal, for a session of a real engine. `main`,
`charts` and `edit` show the shipped Genesis examples on two CPU slots, and `group` a training script with two ranks
there. `tune` and `queue` show a tuning run, and the sweep of `light.toml`. All of these need the `genesis` extra.

`tiles` and `table` show eight GPUs of the simulated driver in `tests/nvml_sim`, with `tests/fake_worker.py` as the
script; `nodes` shows two agents on this machine as two nodes with eight such GPUs each. `film` is an animated SVG of
two sessions: a run in which one worker recovers and another is restarted, and a tuning run.

If Chromium is installed, it takes PNGs of the ended sweep's report, of `main` and of `tiles`. `browser` is a PNG of
`gmg-tui serve` in Chromium.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from gmg_tui import session  # noqa: E402
from gmg_tui.model import Snapshot, WorkerState  # noqa: E402
from gmg_tui.session.client import EngineClient  # noqa: E402
from gmg_tui.session.protocol import Action  # noqa: E402
from gmg_tui.ui.app import GmgApp  # noqa: E402
from screenshots.film import Film  # noqa: E402
from tests.nvml_sim import Sim, build  # noqa: E402
from tests.nvml_sim.__main__ import animate  # noqa: E402

_SHOWN_ROOT = "/home/me/gmg-tui"
_SHOWN_HOME = "/home/me"
LIGHT = "gmg_tui/examples/light.py"
GROUP = "tests/hardware/train_boxes.py"
FRANKA = "gmg_tui/examples/franka.py"
SWEEP = "screenshots/light.toml"
FAKE = "tests/fake_worker.py"


class Stage(NamedTuple):
    """A session, its client and the interface that shows it."""

    app: GmgApp
    pilot: Any
    client: EngineClient

    async def until(self, holds: Callable[[Snapshot], bool]) -> None:
        """Waits until `holds` is true of the snapshot on the screen."""
        while not holds(self.app.view.snapshot):
            await self.pilot.pause(0.2)

    async def wait(self, seconds: float) -> None:
        """Waits, so that the run builds up a history."""
        await self.pilot.pause(seconds)

    async def press(self, *keys: str) -> None:
        """Presses keys, and waits until the screen has settled."""
        await self.pilot.press(*keys)
        await self.pilot.pause(1.5)


class Picture(NamedTuple):
    """A picture: the command that it shows, its size, and the actions before it is taken."""

    command: tuple[str, ...]
    size: tuple[int, int]
    prepare: Callable[[Stage], Awaitable[None]]
    simulated: bool = False
    report: bool = False
    """True to take a picture of the session's report too, once it has ended."""
    browser: bool = False
    """True to take a PNG in Chromium; `size` is then in pixels."""


def _all_are(state: WorkerState) -> Callable[[Snapshot], bool]:
    return lambda snapshot: all(worker.state is state for worker in snapshot.workers)


async def _main(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(30)


async def _charts(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(20)
    await stage.client.edit(("cpu0",), ("-B", "64", "--steps", "10000000"), {})
    await stage.until(lambda snapshot: snapshot.workers[0].attempt == 2)
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(40)
    await stage.press("tab")


async def _edit(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(5)
    await stage.press("e")


async def _gpus(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(25)
    await stage.client.act(Action.KILL, "gpu5")
    await stage.client.act(Action.RESTART, "gpu2")
    await stage.wait(4)


async def _table(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(15)


async def _nodes(stage: Stage) -> None:
    await stage.until(_all_are(WorkerState.RUNNING))
    await stage.wait(20)
    await stage.client.act(Action.KILL, "n2/gpu5")
    await stage.client.act(Action.RESTART, "n1/gpu2")
    await stage.wait(4)


async def _queue(stage: Stage) -> None:
    await stage.press("Q")
    await stage.until(lambda snapshot: snapshot.queue is not None and snapshot.queue.finished == 4)
    await stage.until(lambda snapshot: sum(worker.state is WorkerState.RUNNING for worker in snapshot.workers) == 2)
    await stage.wait(6)


async def _tune(stage: Stage) -> None:
    await stage.until(lambda snapshot: snapshot.tuning is not None and snapshot.tuning.ended)


_LIGHT_RUN = ("--cpu", "2", LIGHT, "-B", "16", "--steps", "10000000")
_FAKE_RUN = ("--start", "together", FAKE, "-B", "4096", "--fps", "24000000", "--lines", "0", "--phase-s", "3")
PICTURES = {
    "main": Picture(("--cpu", "2", FRANKA, "-B", "16", "--steps", "10000000"), (132, 36), _main),
    "charts": Picture(_LIGHT_RUN, (132, 44), _charts),
    "edit": Picture(_LIGHT_RUN, (110, 32), _edit),
    "queue": Picture(
        ("sweep", "--cpu", "2", "--set", "n_envs=8,16,24,32,48,64,96,128,192,256", SWEEP),
        (120, 24),
        _queue,
        report=True,
    ),
    "group": Picture(("--cpu", "2", "--ddp", GROUP, "-B", "64", "--iterations", "100000"), (132, 36), _main),
    "tune": Picture(("tune", "--cpu", "2", LIGHT, "-B", "{n_envs}"), (140, 40), _tune),
    "tiles": Picture(_FAKE_RUN, (160, 44), _gpus, simulated=True),
    "table": Picture(_FAKE_RUN, (80, 24), _table, simulated=True),
    "browser": Picture(_FAKE_RUN, (1500, 860), _gpus, simulated=True, browser=True),
    "nodes": Picture(("--nodes", "local:2", *_FAKE_RUN), (120, 34), _nodes, simulated=True),
}


def _gmg(*words: str, env: Mapping[str, str]) -> str:
    result = subprocess.run(
        (sys.executable, "-m", "gmg_tui", *words), cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return result.stdout.strip()


@asynccontextmanager
async def _stage(picture: Picture, env: Mapping[str, str]) -> AsyncIterator[Stage]:
    command_count = int(picture.command[0] in {"demo", "sweep", "tune"})  # options follow the command
    words = (*picture.command[:command_count], "--detach", *picture.command[command_count:])
    name = await asyncio.to_thread(_gmg, *words, env=env)
    client = await EngineClient.connect(Path(session.find(name, running=True).record.session.spec.socket))
    try:
        app = GmgApp(client)
        async with app.run_test(size=picture.size) as pilot:
            yield Stage(app, pilot, client)
    finally:
        await client.close()
        with suppress(subprocess.CalledProcessError):  # it has ended by itself
            await asyncio.to_thread(_gmg, "stop", name, env=env)


async def _in_browser(picture: Picture, env: Mapping[str, str], target: Path) -> None:
    """Takes a picture of a page of `gmg-tui serve`, after the picture's actions."""
    from tests.results.web.browser import browser

    async with _stage(picture._replace(size=(160, 44)), env) as stage:
        name = stage.client.welcome.session.spec.name
        words = (sys.executable, "-m", "gmg_tui", "serve", name, "--port", "0")
        server = await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=env, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            url = (await server.stdout.readline()).decode().strip()
            await picture.prepare(stage)
            async with browser() as page:
                size = {"width": picture.size[0], "height": picture.size[1], "deviceScaleFactor": 1, "mobile": False}
                await page.call("Emulation.setDeviceMetricsOverride", **size)
                await page.open(url)
                await page.sees("read-only", "running")
                await stage.wait(4)
                await page.picture(target)
        finally:
            server.terminate()
            await server.wait()
    print(target)


async def take(name: str, folder: Path) -> None:
    """Takes one picture; the simulator's files and pages go into `folder`."""
    picture = PICTURES[name]
    env = dict(os.environ)
    animation = None
    if picture.simulated:
        sim = Sim(folder / "sim", build(folder))
        env |= sim.env()
        animate(sim, 0)  # before agents start, as they query what a GPU supports only once
        animation = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.nvml_sim", str(folder / "sim")), cwd=ROOT, stdout=subprocess.DEVNULL
        )
    try:
        if picture.browser:
            await _in_browser(picture, env, HERE / f"{name}.png")
            return
        async with _stage(picture, env) as stage:
            await picture.prepare(stage)
            stage.app.save_screenshot(f"{name}.svg", str(HERE))
            _replace_folders(HERE / f"{name}.svg")
            if picture.report:
                await stage.until(lambda snapshot: snapshot.ended)
                await asyncio.to_thread(_report, stage.client.welcome.session.spec.name, folder, env)
    finally:
        if animation is not None:
            animation.terminate()
            await animation.wait()
    print(HERE / f"{name}.svg")


_FILM_SIZE = (120, 30)
_FILM_RUN = Picture(("demo", "--simulate", "6"), _FILM_SIZE, _main)
_FILM_TUNING = Picture(("tune", "--simulate", "6", "--settle", "1.5"), _FILM_SIZE, _tune)


async def _roll(film: Film, stage: Stage, frames: int, *keys: str, shown_s: float = 1.0) -> None:
    """Presses keys, then films the screen, a frame a second, each shown for `shown_s`."""
    await stage.pilot.press(*keys)
    for _ in range(frames):
        await stage.wait(1.0)
        film.shoot(stage.app, shown_s)


async def take_film() -> None:
    """Takes the film: a start, a recovery, a restart by key, and the answer of a tuning run."""
    film = Film()
    async with _stage(_FILM_RUN, dict(os.environ)) as stage:
        await _roll(film, stage, 10, shown_s=0.8)
        await _roll(film, stage, 2, "l", "l")
        await _roll(film, stage, 1, "r")
        await _roll(film, stage, 4, "y")
    async with _stage(_FILM_TUNING, dict(os.environ)) as stage:
        while (tuning := stage.app.view.snapshot.tuning) is None or not tuning.ended:
            await stage.wait(6.0)
            film.shoot(stage.app, 0.4)
        await _roll(film, stage, 1, shown_s=5.0)
    (HERE / "film.svg").write_text(film.svg())
    _replace_folders(HERE / "film.svg")
    print(HERE / "film.svg", f"{film.seconds:.1f} s")


def _replace_folders(svg: Path) -> None:
    """Replaces this checkout and home with a user's folders, padded to equal length, as SVG text has a fixed length."""
    text = svg.read_text()
    for real, shown in ((str(ROOT), _SHOWN_ROOT), (str(Path.home()), _SHOWN_HOME)):
        text = text.replace(real, shown[: len(real)].ljust(len(real), "-"))
    svg.write_text(text)


def _png(name: str) -> None:
    svg = HERE / f"{name}.svg"
    _draw(svg, HERE / f"{name}.png", _size(svg.read_text()))


def _report(session_name: str, folder: Path, env: Mapping[str, str]) -> None:
    page = folder / "page.html"
    _gmg("report", session_name, "--html", str(page), env=env)
    _draw(page, HERE / "report.png", (1280, 1160))


def _draw(source: Path, picture: Path, size: tuple[int, int]) -> None:
    """Draws a file as a PNG with Chromium, which must not reach anything but that file."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print(f"Chromium not found; skipping {picture.name}", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            (browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}",
             "--default-background-color=00000000", "--virtual-time-budget=10000",
             f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}", source.as_uri()),
            check=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    print(picture)


def _size(svg: str) -> tuple[int, int]:
    """Returns the width and height of an SVG, from its viewBox."""
    _, _, width, height = svg.split('viewBox="', 1)[1].split('"', 1)[0].split()
    return round(float(width)), round(float(height))


def main() -> None:
    """Takes the pictures named on the command line, or all."""
    names = sys.argv[1:] or [*PICTURES, "film"]
    with tempfile.TemporaryDirectory(prefix="gmg-") as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_RUNTIME_DIR": folder}
        for name in names:
            asyncio.run(take_film() if name == "film" else take(name, Path(folder)))
    for name in {"main", "tiles"}.intersection(names):
        _png(name)


if __name__ == "__main__":
    main()
