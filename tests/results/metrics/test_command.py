"""The command `metrics`: address, end, and invalid input."""

import asyncio
import errno
import http.client
import os
import signal
import socket
import stat
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gmg_tui.cli import metrics as command
from gmg_tui.machine.files import write_atomic
from gmg_tui.results import prometheus as collector
from gmg_tui.results.prometheus import SessionsCollector
from tests.cli.scripted import ScriptedEngine, in_process
from tests.patience import LONG_S, eventually, wait_until
from tests.results.metrics.served import fetch, metrics, promtool, value
from tests.results.web.served import unfinished


@pytest.mark.parametrize(
    ("words", "error", "status"),
    [
        (("--listen", "127.0.0.1"), "give HOST:PORT", 2),
        (("--listen", "127.0.0.1:70000"), "give HOST:PORT", 2),
        (("--listen", "[]:9"), "give HOST:PORT", 2),
        (("--listen", "192.0.2.1:9400"), "Cannot assign requested address", 1),
        (("--textfile", "/tmp/gmg.txt"), "end in .prom", 2),
        (("--textfile", "x.prom", "--listen", "127.0.0.1:0"), "mutually exclusive", 2),
    ],
)
def test_wrong_input_is_reported_in_one_line(words: tuple[str, ...], error: str, status: int) -> None:
    done = in_process("metrics", *words)
    assert error in done.stderr
    assert (done.stdout, done.stderr.count("\n"), done.returncode) == ("", 1, status)


def test_only_regular_files_are_written_and_removed(tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "gmg.prom")
    done = in_process("metrics", "--textfile", str(fifo))
    assert (done.returncode, fifo.is_fifo()) == (1, True), done.stderr


@pytest.mark.process
def test_a_file_that_has_replaced_the_text_file_stays(tmp_path: Path) -> None:
    (folder := tmp_path / "metrics").mkdir()
    file, target = folder / "gmg.prom", folder / "target.prom"
    file.symlink_to(target)
    with metrics("--textfile", str(file)):
        wait_until(target.exists)
    assert (target.exists(), file.is_symlink()) == (False, True), "its own file behind a link is removed"
    with metrics("--textfile", str(file)):
        wait_until(target.exists)
        target.unlink()
        target.write_text("another's")
    assert target.read_text() == "another's"


def test_the_text_file_is_written_again_once_its_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, full, writes = tmp_path / "gmg.prom", OSError(errno.ENOSPC, "No space left on device"), list[bool]()

    def write(path: Path, data: bytes, mode: int) -> os.stat_result:
        writes.append(path.exists())
        if len(writes) in (2, 3):
            raise full
        if len(writes) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return write_atomic(path, data, mode=mode)

    monkeypatch.setattr(command, "write_atomic", write)
    monkeypatch.setattr(command, "_WRITE_INTERVAL_S", 0.01)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        command._write(file, CollectorRegistry())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert writes == [False, True, False, False], "old metrics do not pass for current ones"
    assert not file.exists()
    assert capsys.readouterr().err.count("No space left on device; trying again") == 1


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = in_process("metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "in use" in done.stderr


@pytest.mark.process
def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "gmg_tui.cli.metrics", raising=False)
    assert "-m pip install prometheus_client" in in_process("metrics").stderr


@pytest.mark.slow
async def test_over_http_and_a_file_a_session_is_followed_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "metrics" / "gmg.prom"
    file.parent.mkdir()
    async with ScriptedEngine(("cpu0",), "sim.py") as engine:
        name = engine.session.spec.name
        with metrics("--listen", "127.0.0.1:0") as (_, url), metrics("--textfile", str(file)) as (process, _):
            assert value(await asyncio.to_thread(fetch, url), "gmg_session_up", session=name) == 1
            await eventually(file.exists)
            assert stat.S_IMODE(file.stat().st_mode) == 0o644
            assert promtool(file.read_text()) == ""
            process.terminate()
            assert process.wait(LONG_S) == 0
            assert list(file.parent.iterdir()) == []
            engine.end_all()
            text = await asyncio.to_thread(fetch, url)
            assert value(text, "gmg_worker_fps", session=name) is None


async def test_unfinished_requests_do_not_block_a_scrape() -> None:
    async with ScriptedEngine(("cpu0",), "sim.py") as engine:
        with metrics("--listen", "127.0.0.1:0") as (process, url), unfinished(url, 300):
            text = await asyncio.to_thread(fetch, url)
            assert value(text, "gmg_session_up", session=engine.session.spec.name) == 1
            about = psutil.Process(process.pid)
            assert (about.num_threads() < 20, about.num_fds() < 200) == (True, True)
            with pytest.raises(urllib.error.HTTPError, match="405"):
                await asyncio.to_thread(urllib.request.urlopen, url, b"data")


@pytest.mark.process
def test_no_request_is_left_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sessions := tmp_path / "gmg-tui" / "sessions").parent.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with metrics("--listen", "127.0.0.1:0") as (_, url):
        for version in ("1.0.0", "1.0.7", "x.y"):
            accept = f"text/plain, application/openmetrics-text; version={version}"
            request = urllib.request.Request(url, headers={"Accept": accept})
            with urllib.request.urlopen(request, timeout=LONG_S) as answer:
                assert "version=1.0.0" in answer.headers["Content-Type"]
        sessions.write_text("")
        with pytest.raises(http.client.RemoteDisconnected):
            urllib.request.urlopen(url, timeout=LONG_S)


@pytest.mark.process
def test_a_web_site_whose_name_leads_to_this_machine_gets_nothing() -> None:
    with metrics("--listen", "127.0.0.1:0") as (_, url):
        for host in ("evil.example:9400", "127.0.0.1.evil.example", "[::2]", ""):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}))
        for host in ("localhost:9400", "127.0.0.1", "[::1]:1"):
            urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host})).close()
    with metrics("--listen", "0.0.0.0:0") as (_, url):
        address = url.replace("0.0.0.0", "127.0.0.1")
        urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "node7:9400"})).close()


async def test_a_session_whose_engine_is_killed_is_down_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    registry.register(SessionsCollector())
    async with ScriptedEngine(("cpu0",), "sim.py") as engine:
        name = engine.session.spec.name
        await engine.leave(ended=False)
        text = (await asyncio.to_thread(generate_latest, registry)).decode()
        assert value(text, "gmg_session_up", session=name) == 0
        monkeypatch.setattr(collector, "_LOST_EXPORT_S", 0.0)
        assert await asyncio.to_thread(generate_latest, registry) == b""
