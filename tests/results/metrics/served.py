"""`gmg-tui metrics` and a real Prometheus as processes, and their output."""

import json
import os
import re
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.cli.scripted import COMMAND, environ, gmg
from tests.patience import LONG_S, wait_until

Sample = tuple[dict[str, str], float]


def detached(*words: str, **variables: str) -> str:
    """Start a session without a screen; its name."""
    done = gmg("--detach", *words, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def metrics(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address in its first line."""
    with subprocess.Popen([*COMMAND, "metrics", *words], stderr=subprocess.PIPE, text=True, env=environ()) as process:
        try:
            printed = process.stderr.readline()
            match = re.search(r"metrics (?:at|in) (\S+?),?(?: |$)", printed)
            assert match is not None, printed + process.stderr.read()
            yield process, match[1]
        finally:
            process.terminate()
            process.wait(LONG_S)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LONG_S) as answer:
        text: str = answer.read().decode()
    return text


def samples(text: str, name: str) -> list[Sample]:
    """The samples of a metric in the text format; `name` is theirs, with `_total`."""
    families = text_string_to_metric_families(text)
    return [(sample.labels, sample.value) for family in families for sample in family.samples if sample.name == name]


def value(text: str, name: str, **labels: str) -> float | None:
    """The only sample of a metric with these labels, among others; None without one."""
    values = [value for have, value in samples(text, name) if labels.items() <= have.items()]
    assert len(values) <= 1, values
    return values[0] if values else None


class Prometheus:
    """A server that scrapes once a second."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, text: str) -> list[Sample]:
        answer = json.loads(fetch(f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"))
        assert answer["status"] == "success", answer
        results: list[dict[str, Any]] = answer["data"]["result"]
        return [(result["metric"], float(result["value"][1])) for result in results]

    def until(self, text: str, *, empty: bool = False) -> list[Sample]:
        """Wait until a query has an answer, or (`empty`) none."""
        wait_until(lambda: bool(self.query(text)) is not empty)
        return self.query(text)

    @property
    def answers(self) -> bool:
        try:
            return "Ready" in fetch(f"{self._url}/-/ready")
        except OSError:
            return False


@contextmanager
def prometheus(url: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `url`, with its data in `folder`."""
    target = urllib.parse.urlsplit(url)
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: gmg, honor_labels: true, static_configs: [{{targets: ['{target.netloc}']}}]}}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (
        (folder / "prometheus.log").open("w") as log,
        subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"],
            stderr=log,
            stdout=log,
            env={**os.environ, "GOMAXPROCS": "1"},
        ) as process,
    ):
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")
            wait_until(lambda: server.answers)
            yield server
        finally:
            process.terminate()
            process.wait(LONG_S)


def promtool(text: str) -> str:
    """Problems that `promtool check metrics` reports; empty without any."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout + done.stderr
