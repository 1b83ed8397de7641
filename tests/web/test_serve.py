"""`serve` on the network: who is let in, what it sends, and what it says of wrong input."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest
from yarl import URL

from gmg_tui.commands.serve import Listen
from gmg_tui.errors import GmgError
from gmg_tui.model import WorkerState
from tests.cli.scripted import ScriptedEngine, environ
from tests.engine.harness import running, spec_for
from tests.harm.patience import eventually
from tests.web.served import WAIT_S, said, serving, start


async def _status(web: aiohttp.ClientSession, url: str) -> int:
    async with web.get(url, allow_redirects=False) as answer:
        return answer.status


async def test_without_the_token_there_is_nothing() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        token = served.url.rsplit("/", 2)[1]
        assert len(token) >= 32
        wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
        for path in ("", "ws", "static/js/textual.js", "static/", "download/1", "favicon.ico", "%2e%2e/", "\u00e9/"):
            for before in ("", f"{wrong}/", f"{token.lower()}x/", "/"):
                assert await _status(web, f"{served.root}/{before}{path}") == 403, (before, path)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await web.ws_connect(f"{served.root}/{wrong}/ws")
        assert refused.value.status == 403
        async with web.post(served.url) as answer:
            assert answer.status == 405
        assert not psutil.Process(served.process.pid).children()


async def test_the_keys_that_are_set_stand_on_the_page_too() -> None:
    file = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    file.parent.mkdir(parents=True)
    file.write_text('[options.serve]\nsteer = true\n[keys]\nrestart = "f5"\n')
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        page = await web.ws_connect(f"{served.url}ws?width=90&height=20")
        drawn = b""
        while b"f5" not in drawn:
            drawn += await asyncio.wait_for(page.receive_bytes(), WAIT_S)


async def test_the_page_loads_nothing_from_elsewhere_and_tells_nobody_its_address() -> None:
    async with ScriptedEngine(), serving() as served, aiohttp.ClientSession() as web:
        async with web.get(served.url.rstrip("/")) as answer:  # a slash less leads there too
            assert str(answer.url) == served.url
            page = await answer.text()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Cache-Control"] == "no-store"
        assert "http://" not in page.replace("http://www.w3.org", "")
        assert "https://" not in page
        assert "ws://127.0.0.1" in page
        async with web.get(served.url, headers={"Host": "lab.example:8443", "X-Forwarded-Proto": "https"}) as answer:
            assert "wss://lab.example:8443/" in await answer.text()
        async with web.get(served.url, headers={"Host": '"><script>alert(1)</script>'}) as answer:
            assert "<script>alert" not in await answer.text()
        assert await _status(web, f"{served.url}static/js/textual.js") == 200
        for path in ("static/../server.py", "static/%2e%2e/server.py", "static/", "static", "templates/app_index.html"):
            async with web.get(URL(f"{served.url}{path}", encoded=True)) as answer:
                assert answer.status in {403, 404}, path


async def test_noise_on_the_websocket_ends_that_page_alone_and_leaves_no_process() -> None:
    async with running(spec_for("--lines", "0")) as run, serving() as served, aiohttp.ClientSession() as web:
        await run.until_state("cpu0", WorkerState.RUNNING)
        server = psutil.Process(served.process.pid)
        async with web.ws_connect(f"{served.url}ws?width=90&height=20") as kept:
            await asyncio.wait_for(kept.receive_bytes(), WAIT_S)
            for noise in ("", "{", "[]", "7", "null", '["stdin"]', '["stdin", 7]', '["resize", {"width": "a"}]'):
                async with web.ws_connect(f"{served.url}ws?width=nonsense&height=-1") as page:
                    await page.send_str(noise)
                    async with asyncio.timeout(WAIT_S):
                        async for _ in page:
                            pass
            await eventually(lambda: len(server.children()) == 1)
            await kept.send_str('["resize", {"width": 100000000, "height": 100000000}]')
            await kept.send_str('["ping", "1"]')
            async with asyncio.timeout(WAIT_S):
                while (message := await kept.receive()).type is not aiohttp.WSMsgType.TEXT:
                    pass
            assert message.data == '["pong", "1"]'
        await eventually(lambda: not server.children())


async def test_a_killed_server_leaves_no_screen_behind() -> None:
    async with running(spec_for("--lines", "0")):
        process = await start("--listen", "127.0.0.1:0")
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), WAIT_S)).decode().strip()
        async with aiohttp.ClientSession() as web, web.ws_connect(f"{url}ws") as page:
            await asyncio.wait_for(page.receive_bytes(), WAIT_S)
            children = psutil.Process(process.pid).children()
            assert len(children) == 1
            process.send_signal(signal.SIGKILL)
            await process.communicate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=60)
        assert not alive


async def test_a_session_that_has_ended_is_not_shown() -> None:
    async with ScriptedEngine() as engine, serving() as served, aiohttp.ClientSession() as web:
        assert await _status(web, served.url) == 200
        await engine.leave(ended=True)
        async with web.get(served.url) as answer:
            assert (answer.status, await answer.text()) == (410, "sim-1 has ended\n")


async def test_wrong_input_is_told_in_one_line() -> None:
    async with ScriptedEngine():
        err, status = await said("nothing")
        assert (err, status) == ("gmg-tui: no session nothing; there are: sim-1\n", 1)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            err, status = await said("--listen", where)
        assert (err, status) == (f"gmg-tui: --listen {where}: the port is in use; port 0 is any free one\n", 1)
        err, status = await said("--listen", "no.such.host.invalid:0")
        assert status == 1
        assert err.splitlines()[-1] == "gmg-tui: --listen no.such.host.invalid:0: there is no such host"
        err, status = await said("--theme", "pink")
        assert (err.count("\n"), status) == (1, 2)


async def test_an_address_that_others_reach_is_warned_of() -> None:
    async with ScriptedEngine():
        process = await start("--listen", "0.0.0.0:0", "--steer")
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), WAIT_S)).decode()
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert url.startswith(f"http://{socket.gethostname()}:")
    first, second = err.decode().splitlines()
    assert first.startswith("gmg-tui: 0.0.0.0 can be reached from outside, unencrypted")
    assert "restart, stop and edit" in first
    assert "to be steered" in second


@pytest.mark.parametrize("missing", ["textual_serve", "jinja2"])
def test_without_textual_serve_the_extra_is_named(missing: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from gmg_tui.cli import main; main(['serve'])"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, env=environ(), check=False)
    wanted = "gmg-tui: serve needs textual-serve; get it with: pip install 'gmg-tui[serve]'\n"
    assert (done.stderr, done.returncode) == (wanted, 1)


@pytest.mark.parametrize("text", ["8400", ":8400", "127.0.0.1", "127.0.0.1:", "::1:8400", "a:b", "a:70000", "a:-1", ""])
def test_a_wrong_address_is_named(text: str) -> None:
    with pytest.raises(GmgError, match="--listen"):
        Listen.parse(text)


@pytest.mark.parametrize(
    ("text", "loopback", "named"),
    [
        ("127.0.0.1:1", True, "127.0.0.1"),
        ("[::1]:1", True, "[::1]"),
        ("localhost:1", True, "localhost"),
        ("10.1.2.3:1", False, "10.1.2.3"),
        ("lab:1", False, "lab"),
        ("[::]:1", False, socket.gethostname()),
    ],
)
def test_an_address_is_read(text: str, loopback: bool, named: str) -> None:
    place = Listen.parse(text)
    assert (place.loopback, place.named, place.port) == (loopback, named, 1)
