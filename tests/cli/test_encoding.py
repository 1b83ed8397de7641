"""Which terminals are drawn on in ASCII without being asked to."""

from __future__ import annotations

import sys

import pexpect
import pytest

from gmg_tui.commands.interactive import speaks_utf8
from tests.cli.scripted import ROOT, environ


@pytest.mark.parametrize(
    ("locale", "written", "utf8"),
    [
        ({}, "utf-8", True),
        ({"LANG": "C.UTF-8"}, "utf-8", True),
        ({"LANG": "en_US.utf8"}, "UTF-8", True),
        ({"LANG": "C"}, "utf-8", True),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1", False),
        ({"LANG": "de_DE.ISO-8859-15@euro"}, "utf-8", False),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "ja_JP.eucJP"}, "utf-8", False),
        ({"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "C.UTF-8"}, "utf-8", True),
        ({"LANG": "", "LC_ALL": ""}, "latin-1", False),
    ],
)
def test_the_locale_and_the_stream_tell_the_encoding(locale: dict[str, str], written: str, utf8: bool) -> None:
    assert speaks_utf8(locale, written, coerced=False) is utf8


def test_what_python_takes_for_a_locale_that_is_not_installed_says_nothing_about_the_terminal() -> None:
    assert not speaks_utf8({"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "C.UTF-8"}, "utf-8", coerced=True)
    assert speaks_utf8({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", coerced=True)


@pytest.mark.terminal
def test_a_terminal_of_another_encoding_gets_ascii_by_itself() -> None:
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "gmg_tui", "--cpu", "1", str(ROOT / "tests" / "fake_worker.py"), "--lines", "0"],
        env=environ(TERM="xterm-256color", LANG="de_DE.ISO-8859-1"),
        dimensions=(30, 100),
        timeout=60,
    )
    terminal.expect(b"Running at")
    seen = terminal.before
    terminal.send(b"qs")
    terminal.expect(pexpect.EOF)
    assert seen.isascii()
    terminal.wait()
