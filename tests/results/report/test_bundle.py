"""`report --bundle`: an archive for a bug report, without secrets."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.results import bundle as archive
from gmg_tui.session import ENGINE_LOG
from tests.cli.scripted import ScriptedEngine, gmg
from tests.results.report import stored

_SCRIPT = """
import sys
print("x" * 3_000_000)
print("token: t0ken HF_TOKEN=t0ken", "plain-value", "/home/alice/runs", sys.argv)
print("Authorization: fromtheshell", "literal-0-secret")
print("Authorization: Bearer be4rer123", "https://me:urlp4ss@host/x", "'password': 'two w0rds'", "ghp_0123456789abcdef")
print("https://host/x?token=qu3ry1&y=1", "environ['API_KEY'] = 'br4cket'", "https://host/y?api_key=qu3ry2")
print("Cookie: sid=c00kie1; other=c00kie2")
print("Proxy-Authorization: Negotiate neg0tiate", "Authorization: Basic bas1c0123")
print("postgres://me:p@urlp4ss@host/x", "https://host/z?sig=s1gned", "SECRET=$'doll4r'")
print("PASSWORD=//sl4shes", "authorization=Token t0ken12345678")
print("https://hooks.slack.com/services/T0/B0/sl4ck12345", "https://api.telegram.org/bot1234567:telegr4m-0123456789abc/send")
print("-----BEGIN PRIVATE KEY-----", "MIIE", "-----END PRIVATE KEY-----", "after", sep="\\n")
"""


@pytest.mark.usefixtures("own_folders")
def test_a_bundle_has_the_end_of_each_log_and_neither_secrets_nor_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "myhome"))
    (tmp_path / "sim.py").write_text(_SCRIPT)
    words = [
        "--env",
        "NAME=plain-value",
        "--env",
        'QUOTED=a"quoted value',
        "--env",
        "FLAG=1",
        "--env",
        "FILLED=literal-{i}-secret",
        "--notify",
        "true https://hooks.example.org/webh00k",
        "sim.py",
        "--api-key",
        "k3y",
        '--x=a"quoted value',
        "--out",
        f"{tmp_path}/myhome/o",
    ]
    assert gmg("--cpu", "1", "--headless", "--name", "it", *words).returncode == 0
    folder = sessions.find("it", running=False).folder
    (folder / "logs" / "link.log").symlink_to("/dev/zero")
    (folder / "logs" / "more.log").symlink_to(tmp_path / "sim.py")
    (folder / "logs" / "cut.log").write_text("x" * 1_000_000 + "plain-value" + "y" * ((2 << 20) - len("value")))
    (folder / "logs" / "0001-TOKEN=valu3.log").touch()
    done = gmg("report", "it", "--bundle", WANDB_API_KEY="fromtheshell", XDG_STATE_HOME=os.environ["XDG_STATE_HOME"])
    assert (done.stdout, done.stderr, done.returncode) == ("gmg-tui-it.zip\n", "", 0)
    with zipfile.ZipFile("gmg-tui-it.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    logs = {"logs/cpu0.log", "logs/cut.log", "logs/0001-TOKEN=masked.log"}
    assert set(texts) == {"session.json", "summary.json", ENGINE_LOG, *logs, "versions.json"}
    assert set(texts["logs/cut.log"]) == {"y"}
    assert len(texts["logs/cpu0.log"]) <= 2 << 20
    assert "--api-key" in texts["logs/cpu0.log"]
    assert "after" in texts["logs/cpu0.log"]
    shown = ("t0ken", "plain-value", "k3y", "fromtheshell", "alice", "myhome", "quoted", "literal", "-secret")
    for secret in (
        *shown,
        "be4rer",
        "urlp4ss",
        "w0rds",
        "ghp_",
        "MIIE",
        "qu3ry",
        "br4cket",
        "c00kie",
        "neg0tiate",
        "bas1c",
        "sl4shes",
        "s1gned",
        "doll4r",
        "webh00k",
        "sl4ck",
        "telegr4m",
    ):
        assert not [name for name, text in texts.items() if secret in text], secret
    assert json.loads(texts["session.json"])["session"]["spec"]["env"] == dict.fromkeys(
        ("NAME", "QUOTED", "FLAG", "FILLED"), "***"
    )
    assert json.loads(texts["versions.json"])["engine"]
    Path("gmg-tui-it.zip").rename("elsewhere.zip")
    Path("gmg-tui-it.zip").symlink_to("elsewhere.zip")
    assert "gmg-tui-it.zip is a link" in gmg("report", "it", "--bundle").stderr


_SWAPS = """
import os, sys
log, secret = sys.argv[1:]
while True:
    open(log + "~", "w").close()
    os.replace(log + "~", log)
    os.symlink(secret, log + "~")
    os.replace(log + "~", log)
"""


@pytest.mark.usefixtures("own_folders")
def test_a_log_that_a_script_swaps_for_a_link_is_not_followed(tmp_path: Path) -> None:
    engine, secret = ScriptedEngine(), tmp_path / "secret"
    secret.write_text("s3cret")
    log = engine.folder / sessions.LOGS / "cpu0.log"
    swapping = subprocess.Popen([sys.executable, "-c", _SWAPS, log, secret])
    try:
        for _ in range(5000):
            with contextlib.suppress(OSError), archive._open_file(log, engine.folder) as file:
                assert file.read() == b""
    finally:
        swapping.kill()
        swapping.wait()


def test_a_bundle_is_of_one_session() -> None:
    done = gmg("report", "a", "b", "--bundle")
    assert (done.stderr, done.returncode) == ("gmg-tui: --bundle is for one session; give one name\n", 2)


@pytest.mark.usefixtures("own_folders")
def test_variables_of_jobs_and_of_their_attempts_are_masked_too() -> None:
    first, second = stored.jobs(2)
    first = structs.replace(first, env={"PLAIN": "given to a job"})
    attempt = structs.replace(second.last, env={"PLAIN": "given by a key"})
    asyncio.run(stored.session("sim-1", [first, structs.replace(second, last=attempt)]))
    values = archive._variable_values(sessions.find("sim-1", running=False))
    assert {"given to a job", "given by a key"} <= values
