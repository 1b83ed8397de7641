"""The screen in a real browser."""

import psutil
import pytest

from gmg_tui.model import WorkerState
from tests.engine.harness import running, spec_for
from tests.patience import LONG_S, eventually
from tests.results.web.browser import BROWSER, browser
from tests.results.web.served import serving

NEVER = ("--lines", "0")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow,
]


def _screens(pid: int) -> list[psutil.Process]:
    return list(psutil.Process(pid).children(recursive=True))


async def test_a_browser_shows_the_screen_read_only_until_the_server_ends() -> None:
    async with running(spec_for(*NEVER, cpu=2)) as run:
        await run.until_state("cpu1", WorkerState.RUNNING)
        async with serving(run.spec.name) as served, browser() as page:
            await page.open(served.url)
            await page.sees("read-only", "cpu0 log", "running", "? Help")
            await page.until("document.body.classList.contains('-first-byte')")
            assert await page.evaluate("document.title") == run.spec.name
            assert await page.evaluate("document.querySelectorAll('.xterm-screen canvas').length") > 0
            await page.click("cpu1 · CPU")  # the page has the keyboard's focus then
            await page.sees("cpu1 log")
            await page.press("Enter")
            await page.sees("2 of 2")
            await page.click("Charts")
            await page.sees("lowest", "highest")
            await page.click("Setup")
            await page.sees("Command line")
            assert all(url.startswith((served.root, "data:")) for url in page.asked), page.asked
            assert [text for text in page.refused if "404" not in text] == []  # there is no favicon
            await page.press("q")
            await page.until("document.body.classList.contains('-closed')")
            await eventually(lambda: not _screens(served.process.pid))
            await page.open(served.url)
            await page.sees("running")
            size = {"width": 760, "height": 420, "deviceScaleFactor": 1, "mobile": False}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            await page.shows(lambda rows: len(rows) <= 25, "fewer rows")
            children = _screens(served.process.pid)
            assert len(children) == 1
            served.process.terminate()
            await page.until("document.body.classList.contains('-closed')")
            assert await served.process.wait() == 0
            _, alive = psutil.wait_procs(children, timeout=LONG_S)
            assert not alive
        assert all(worker.attempt == 1 for worker in run.snapshot.workers)
        assert all(worker.state is WorkerState.RUNNING for worker in run.snapshot.workers)
