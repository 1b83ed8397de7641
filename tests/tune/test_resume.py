"""`tune --resume` refuses what would mix measurements that do not compare."""

from __future__ import annotations

import sys

import pytest
from msgspec import structs

from gmg_tui import interpreter
from gmg_tui.commands.tune import check_comparable
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from tests import tunings


def session(**changes: object) -> Session:
    made = tunings.session(tunings.ENDED)
    spec = structs.replace(made.spec, python=sys.executable, env={"A": "1"})
    return structs.replace(made, spec=spec, **changes)


def test_the_same_environment_and_interpreter_are_accepted() -> None:
    same = session(versions=interpreter.versions(sys.executable))
    check_comparable(same, same.spec)
    check_comparable(session(), session().spec)  # a session that does not know its versions


def test_an_interpreter_whose_packages_have_changed_is_refused_with_the_versions() -> None:
    now = interpreter.versions(sys.executable)
    before = session(versions=structs.replace(now, python="2.7"))
    with pytest.raises(GmgError, match=r"has changed \(python 2\.7 is now 3\.[^)]*\), and rates would not compare"):
        check_comparable(before, before.spec)
