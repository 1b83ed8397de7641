"""Single values of the file and of the command line."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.errors import GmgError
from gmg_tui.sweep import checks
from gmg_tui.sweep.overrides import sets


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("45s", 45.0),
        ("90", 90.0),
        ("1.5h", 5400.0),
        ("1d2h3m4s", 93784.0),
        (" 2M ", 120.0),
        (90, 90.0),
        (0.5, 0.5),
        ("0.5s", 0.5),
        ("none", math.inf),
    ],
)
def test_times_are_read(said: object, seconds: float) -> None:
    assert checks.timeout_s("timeout", said) == seconds


@pytest.mark.parametrize(
    "said", ["", "m", "30 m", "1h30", "30m1h", "-5", "0", 0, -1, math.nan, math.inf, True, "1m1m", "inf", [], "367d"]
)
def test_what_is_no_time_is_refused_with_an_example(said: object) -> None:
    with pytest.raises(GmgError, match=r'^timeout is .*; give a time, as in "30m"'):
        checks.timeout_s("timeout", said)


@pytest.mark.parametrize(
    ("said", "option"),
    [([0, 1, 2], "0,1,2"), ([3], "3,"), (["GPU-ab", 1], "GPU-ab,1"), ("all", "all"), (4, "4"), (" 0,2 ", "0,2")],
)
def test_cards_take_the_form_of_the_option(said: object, option: str) -> None:
    assert checks.gpus("gpus", said) == option


@pytest.mark.parametrize("said", [[], 0, -1, True, "", [-1], [True], [0.5], ["0,1"], {}, [[0]]])
def test_what_is_no_card_is_refused(said: object) -> None:
    with pytest.raises(GmgError, match=r"^gpus is .*indices or UUIDs"):
        checks.gpus("gpus", said)


@pytest.mark.parametrize("said", [math.inf, -math.inf, math.nan, 2**63, -(2**63) - 1])
def test_numbers_that_json_lacks_are_kept_as_the_text_that_is_filled_in(said: float) -> None:
    assert checks.value("x", said) == str(said)


@given(st.one_of(st.booleans(), st.integers(), st.floats(), st.text().filter(lambda text: "\0" not in text)))
def test_every_value_survives_the_store(said: Any) -> None:
    kept = checks.value("x", said)
    again = msgspec.json.decode(msgspec.json.encode(kept), type=bool | int | float | str)
    assert (again, type(again)) == (kept, type(kept))


def test_values_of_the_command_line_are_read_as_toml_where_that_gives_a_number_or_boolean() -> None:
    words = (
        "a=1,2.5,-3,1e-3,1_000",
        "b=true,false,True",
        "c=adam, sgd ,1979-05-27,[1],0x10",
        "optim.lr='1',\"x,y\",''",
        "d=k=v,'[64,64]'",
        "e=inf",
    )
    assert sets(words) == {
        "a": (1, 2.5, -3, 0.001, 1000),
        "b": (True, False, "True"),
        "c": ("adam", "sgd", "1979-05-27", "[1]", 16),
        "optim.lr": ("1", "x,y", ""),
        "d": ("k=v", "[64,64]"),
        "e": ("inf",),
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("a",), "give KEY=VALUE"),
        (("=1",), "give KEY=VALUE"),
        (("a=",), "a value is missing"),
        (("a=1,,2",), "a value is missing"),
        (("a=1,",), "a value is missing"),
        (("a='1,2",), "a quote is not closed"),
        (("a= ,2",), "a value is missing"),
        (("a=[1,2]",), "leave out the brackets"),
        (("gpu=1",), "filled in by gmg-tui itself"),
        (("a b=1",), "cannot be a placeholder"),
        (("a=1", "a=2"), "a is given twice"),
    ],
)
def test_sets_that_cannot_be_meant_are_named(words: tuple[str, ...], named: str) -> None:
    with pytest.raises(GmgError, match=f"^--set {re.escape(words[-1])}: .*{named}"):
        sets(words)


@given(st.lists(st.integers() | st.booleans() | st.from_regex(r"[g-m]+", fullmatch=True), min_size=1))
def test_what_is_written_with_commas_is_read_back(values: list[bool | int | str]) -> None:
    word = "key=" + ",".join(str(value).lower() for value in values)
    expected = tuple(checks.value("", value) for value in values)
    assert sets((word,)) == {"key": expected}
