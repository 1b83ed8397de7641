"""`metrics` as a process: where it tells, when it ends, and what it says to wrong input."""

from __future__ import annotations

import shutil
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.cli.scripted import ScriptedEngine
from tests.harm.patience import eventually, wait_until
from tests.metrics.served import WORKER, detached, fetch, gmg, metrics, promtool, value


def _over_unix(path: str) -> bytes:
    """The answer to a scrape over a UNIX socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(path)
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (("nobody",), "no session nobody", 1),
        (("--listen", "127.0.0.1"), "give HOST:PORT", 2),
        (("--listen", "127.0.0.1:70000"), "give HOST:PORT", 2),
        (("--listen", ""), "give HOST:PORT", 2),
        (("--listen", "unix:"), "give HOST:PORT", 2),
        (("--listen", "192.0.2.1:9400"), "no address of this machine", 1),
        (("--listen", f"unix:/tmp/{'x' * 120}"), "too long", 2),
        (("--listen", "unix:/nowhere/x.sock"), "No such file", 1),
        (("--textfile", "/nowhere/gmg.prom"), "no folder /nowhere", 2),
        (("--textfile", "/tmp"), "give the path of a file", 2),
        (("--textfile", "/dev/null"), "no regular file", 2),
        (("--textfile", "x.prom", "--listen", "127.0.0.1:0"), "mutually exclusive", 2),
    ],
)
def test_wrong_input_gives_one_line(words: tuple[str, ...], said: str, status: int) -> None:
    done = gmg("metrics", *words)
    assert said in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)


def test_a_port_or_a_socket_in_use_gives_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = gmg("metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "it is in use; give another port" in done.stderr
    with metrics("--listen", f"unix:{tmp_path / 's'}"):
        done = gmg("metrics", "--listen", f"unix:{tmp_path / 's'}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "another program listens there" in done.stderr


def test_without_the_library_it_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['prometheus_client'] = None\n")
    root = str(Path(__file__).parents[2])
    done = gmg("metrics", PYTHONPATH=f"{tmp_path}:{root}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "pip install 'gmg-tui[metrics]'" in done.stderr


def test_over_a_unix_socket_which_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "gmg.sock"
    with socket.socket(socket.AF_UNIX) as left:  # as after a kill -9: a file that nobody listens at
        left.bind(str(path))
    with metrics("--listen", f"unix:{path}") as (process, where):
        assert where == f"unix:{path}"
        head, _, body = _over_unix(str(path)).partition(b"\r\n\r\n")
        assert b" 200 OK" in head
        assert value(body.decode(), "gmg_sessions") == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert not path.exists()


def test_a_file_that_is_there_already_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    done = gmg("metrics", "--listen", f"unix:{tmp_path / 'notes'}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (tmp_path / "notes").read_text() == "mine"


def test_the_textfile_is_whole_readable_by_others_and_gone_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "gmg.prom"
    name = detached("--cpu", "1", WORKER, "--lines", "0")
    with metrics("--textfile", str(file)) as (process, where):
        assert where == str(file)
        wait_until(file.exists)
        text = file.read_text()
        assert value(text, "gmg_session_up", session=name) == 1
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        if shutil.which("promtool"):
            assert promtool(text) == ""
        process.terminate()
        assert process.wait(30) == 0
    assert list(tmp_path.glob("*gmg.prom*")) == []


def test_a_session_ends_though_its_metrics_are_told() -> None:
    """An engine waits for its clients: this one must not keep it."""
    name = detached("--cpu", "1", WORKER, "--lines", "60")
    with metrics("--listen", "127.0.0.1:0") as (_, url):
        wait_until(lambda: value(fetch(url), "gmg_sessions_ended_total", outcome="finished") == 1)
        wait_until(lambda: "ended" in gmg("ls").stdout)
        assert value(fetch(url), "gmg_worker_state", session=name, state="finished") == 1
        assert value(fetch(url), "gmg_worker_fps", session=name) is None


async def test_a_session_whose_engine_is_killed_counts_as_lost_and_is_told_of_no_more() -> None:
    async with ScriptedEngine(("cpu0",), "sim.py") as engine:
        with metrics("--listen", "127.0.0.1:0") as (_, url):
            await eventually(lambda: value(fetch(url), "gmg_session_up", session="sim-1") == 1)
            await engine.leave(ended=False)
            await eventually(lambda: value(fetch(url), "gmg_sessions_ended_total", outcome="lost") == 1)
            assert value(fetch(url), "gmg_session_info", session="sim-1") is None
