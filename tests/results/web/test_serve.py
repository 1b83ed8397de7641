"""`serve` on the network: access, limits, and invalid input."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from functools import partial

import aiohttp
import psutil
import pytest

from gmg_tui import ui
from gmg_tui.cli.attach import SERVED_VARIABLE
from gmg_tui.model import WorkerState
from tests.cli.scripted import ScriptedEngine, in_process
from tests.engine.harness import running, spec_for
from tests.patience import LONG_S, eventually
from tests.results.web.served import serving, start, unfinished


async def _status(web: aiohttp.ClientSession, url: str) -> int:
    async with web.get(url, allow_redirects=False) as answer:
        return answer.status


async def test_requests_without_the_token_are_rejected() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        token = served.url.rsplit("/", 2)[1]
        assert len(token) >= 32
        wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
        for path in ("", "ws", "static/js/textual.js", "static/", "download/1", "%2e%2e/"):
            for before in ("", f"{wrong}/", f"{token.lower()}x/", "/"):
                assert await _status(web, f"{served.root}/{before}{path}") == 404, (before, path)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await web.ws_connect(f"{served.root}/{wrong}/ws")
        assert refused.value.status == 404
        async with web.post(served.url) as answer:
            assert answer.status == 405
        assert not psutil.Process(served.process.pid).children()


async def test_a_page_shows_no_later_session_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[partial[object]] = []
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # only the main thread can
    monkeypatch.setattr(ui, "run", lambda connect, **_: shown.append(connect))
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    monkeypatch.setenv(SERVED_VARIABLE, "id of the served session")
    async with ScriptedEngine():
        await asyncio.to_thread(in_process, "attach", "--readonly", "sim-1")
    assert shown[0].args[1] == "id of the served session", "with which the engine must agree"


async def test_the_page_behind_a_tunnel_loads_nothing_from_the_port_that_it_has_here() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        async with web.get(served.url, headers={"Host": "localhost:9000"}) as answer:
            page = await answer.text()
        token = served.url.rsplit("/", 2)[1]
        assert f'"http://localhost:9000/{token}/static/js/textual.js"' in page
        assert f'"ws://localhost:9000/{token}/ws"' in page
        assert served.root.removeprefix("http://") not in page


async def test_the_page_loads_no_external_resources() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        async with web.get(served.url) as answer:
            page = await answer.text()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert f"{served.url.replace('http:', 'ws:')}ws" in page
        assert "https://" not in page
        assert await _status(web, f"{served.url}static/js/textual.js") == 200
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await web.ws_connect(f"{served.url}ws", origin="https://elsewhere.example")
        for path in ("static/../server.py", "static/%2e%2e/server.py", "static/", "templates/app_index.html"):
            assert await _status(web, f"{served.url}{path}") in {403, 404}, path


async def test_a_closed_page_leaves_no_process_and_does_not_affect_others() -> None:
    async with running(spec_for("--lines", "0")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        process = await start("--port", "0")
        url = (await asyncio.wait_for(process.stdout.readline(), LONG_S)).decode().strip()
        server = psutil.Process(process.pid)
        async with aiohttp.ClientSession() as web, web.ws_connect(f"{url}ws?width=90&height=20") as kept:
            await asyncio.wait_for(kept.receive_bytes(), LONG_S)
            async with web.ws_connect(f"{url}ws?width=nonsense") as noisy:
                await noisy.send_str("{")
                await eventually(lambda: len(server.children()) == 1)
            await kept.send_str('["ping", "1"]')
            async with asyncio.timeout(LONG_S):
                while (message := await kept.receive()).type is not aiohttp.WSMsgType.TEXT:
                    pass
            assert message.data == '["pong", "1"]'
            children = server.children()
            process.send_signal(signal.SIGKILL)
            await process.communicate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=LONG_S)
        assert not alive


async def test_unfinished_requests_block_nobody_and_print_nothing() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        with unfinished(served.url, 1100) as connections:
            assert await _status(web, served.url) == 200
            assert psutil.Process(served.process.pid).num_fds() < 200
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(connections[-1].recv, 1) == b""  # cut after a while
        assert (await served.process.stderr.readline()).count(b"read-only") == 1
        served.process.send_signal(signal.SIGINT)
        assert await served.process.stderr.read() == b""
        await served.process.wait()


async def test_closed_connections_take_no_memory() -> None:
    endless = b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2_000_000

    def flood(port: int) -> None:
        for _ in range(1000):
            with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(OSError):
                connection.sendall(endless)

    async with ScriptedEngine(), serving() as served:
        await asyncio.to_thread(flood, int(served.root.rpartition(":")[2]))
        assert psutil.Process(served.process.pid).memory_info().rss < 300 << 20


async def test_a_viewers_input_is_bounded_and_its_process_ends_with_the_connection() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        page = await web.ws_connect(f"{served.url}ws?width=1000000&height=1000000")
        await asyncio.wait_for(page.receive_bytes(), LONG_S)
        await page.send_str(json.dumps(["stdin", "\x1b[48;24;99999999;1;1t"]))  # a terminal's report of its size
        await page.send_str(json.dumps(["stdin", "?"]))
        async with asyncio.timeout(LONG_S):
            while b"Select the worker above" not in await page.receive_bytes():
                pass
        for _ in range(20):
            await page.send_str(json.dumps(["stdin", "j" * 10_000]))
        (viewer,) = psutil.Process(served.process.pid).children()
        assert viewer.memory_info().rss < 500 << 20
        await page.send_str(json.dumps(["stdin", "j" * 3_000_000]))
        await page.close()
        assert not (await asyncio.to_thread(psutil.wait_procs, [viewer], timeout=LONG_S))[1]
        assert await _status(web, served.url) == 200


async def test_a_port_in_use_is_reported_in_one_line() -> None:
    async with ScriptedEngine():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = in_process("serve", "--port", str(taken.getsockname()[1]))
    assert done.stderr.endswith("in use; --port 0 picks a free one\n")


@pytest.mark.process
def test_without_textual_serve_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("textual_serve", "textual_serve.server"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "gmg_tui.cli.serve", raising=False)
    done = in_process("serve")
    assert done.returncode == 1
    assert "-m pip install textual-serve" in done.stderr
