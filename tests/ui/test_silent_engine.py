"""An engine that answers late or never: keys, dialogs and leaving do not wait for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gmg_tui.model import Details
from gmg_tui.model.errors import GmgError
from gmg_tui.session import client as clients
from gmg_tui.session import protocol
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Answer, Ask, Hello, Numbered, Request, Update, Welcome
from gmg_tui.ui.app import GmgApp
from tests.ui import play, sessions

SIZE = (120, 36)


class Engine:
    """An engine on a socket that sends a greeting and then only messages that a test sends."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Request] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        with suppress(EOFError, OSError):
            while True:
                request = await protocol.read_request(reader)
                if isinstance(request, Hello):
                    snapshot = sessions.busy_snapshot(2)
                    self.say(Welcome(sessions.session(2), snapshot, ()))
                else:
                    self.heard.put_nowait(request)
        writer.close()

    def say(self, message: Welcome | Update | Answer) -> None:
        self._writer.write(protocol.frame(message))


@asynccontextmanager
async def connected(tmp_path: Path) -> AsyncIterator[tuple[Engine, EngineClient]]:
    """A silent engine, and a real client of it."""
    engine, path = Engine(), tmp_path / "engine.sock"
    async with await asyncio.start_unix_server(engine.serve, path):
        client = await EngineClient.connect(path)
        yield engine, client
        await client.close()


async def test_an_unanswered_request_fails_and_a_late_answer_is_not_mistaken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "ANSWER_TIMEOUT_S", 0.05)
    async with connected(tmp_path) as (engine, client):
        listening = asyncio.ensure_future(_drain(client))
        with pytest.raises(GmgError, match=r"the engine has not answered for .* it may still carry this out"):
            await client.details("gpu0")
        late = await engine.heard.get()
        monkeypatch.setattr(clients, "ANSWER_TIMEOUT_S", 60.0)
        asking = asyncio.ensure_future(client.details("gpu1"))
        then = await engine.heard.get()
        for message in (late, then):
            assert isinstance(message, Numbered)
            assert isinstance(message.request, Ask)
            engine.say(Answer.with_value(message.id, _details(message.request.slot)))
        assert (await asking).slot == "gpu1"
        listening.cancel()


async def _drain(client: EngineClient) -> None:
    async for _ in client.events():
        pass  # answers arrive while somebody listens


def _details(slot: str) -> Details:
    return Details(slot, (), "/", {}, (), "", ())


async def test_an_engine_that_does_not_read_blocks_neither_requests_nor_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "ANSWER_TIMEOUT_S", 0.05)
    path, hello = tmp_path / "engine.sock", asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a ReadTransport too
        writer.write(protocol.frame(Welcome(sessions.session(2), sessions.busy_snapshot(2), ())))
        await hello.wait()
        writer.transport.abort()

    async with await asyncio.start_unix_server(serve, path):
        client = await EngineClient.connect(path)
        for _ in range(3):  # more than the socket and the buffers take
            with pytest.raises(GmgError, match="has not answered"):
                await client.edit(("gpu0",), ("x" * 900_000,), {})
        await client.close()
        hello.set()


class SilentApp(GmgApp):
    """An app that notices silence at once."""

    REDRAW_INTERVAL_S = 0.001
    SILENT_S = 1


async def test_the_headline_shows_how_long_the_engine_is_silent_and_keys_do_not_wait(tmp_path: Path) -> None:
    async with connected(tmp_path) as (engine, client):
        app = SilentApp(client)
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await play.sees(pilot, "engine silent for ")
            await pilot.press("e")
            await play.sees(pilot, "waiting for the engine")
            await pilot.press("escape", "question_mark")
            await play.sees(pilot, "─ Help ─")
            await pilot.press("escape", "a")
            await play.sees(pilot, "⚠ engine silent for ", "Tried")
            await pilot.press("escape", "q")
            await play.sees(pilot, "2 workers are running.")
            await pilot.press("escape")
            talking = asyncio.ensure_future(_talk(engine))
            await play.sees(pilot, "00:41:08")
            talking.cancel()
            await pilot.press("d")
        assert app.return_value.kind == "detached"


async def _talk(engine: Engine) -> None:
    while True:
        engine.say(Update(sessions.busy_snapshot(2, second=1.0)))
        await asyncio.sleep(0.1)


async def test_a_late_answer_to_an_edit_closes_the_dialog_and_is_sent_once() -> None:
    app = play.busy(2)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("e")
        await play.sees(pilot, "Edit gpu0")
        app.engine.answers.clear()
        await pilot.press("0", "ctrl+s", "ctrl+s")
        await pilot.pause()
        await play.sees(pilot, "Edit gpu0")
        app.engine.answers.set()
        await pilot.pause()
        assert app.screen is app.main
        assert len(play.asked(app.engine)) == 1


@pytest.mark.parametrize("keys", ["r d", "enter q d", "p ctrl+c d", "q x d"])
async def test_the_interface_can_be_left_while_a_request_is_pending(keys: str) -> None:
    app = play.busy(2)
    app.engine.answers.clear()
    async with app.run_test(size=SIZE) as pilot:
        await play.press(pilot, *keys.split())
    assert app.return_value.kind == "detached"
