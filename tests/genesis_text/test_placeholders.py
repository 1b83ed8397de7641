"""Placeholders in arguments and environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.genesis.placeholders import fill, values_for
from gmg_tui.model import Gpu, Slot, SlotKind

CARD = Slot("gpu3", SlotKind.GPU, Gpu(3, "GPU-1234", "NVIDIA H100"))
VALUES = values_for(CARD, 1, 8, 5)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("run-{i}", "run-1"),
        ("{slot}/{gpu}/{i}/{n}", "gpu3/5/1/8"),
        ("{i}{i}", "11"),
        ("{{i}}", "{i}"),
        ("{{{i}}}", "{1}"),
        ("{{}}", "{}"),
        ("{other} {} { i } {I}", "{other} {} { i } {I}"),
        ("${oc.env:HOME}", "${oc.env:HOME}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ('{"a": {"b": {i}}}', '{"a": {"b": 1}}'),
        ('{{"a": {{"b": {i}}}}}', '{"a": {"b": 1}}'),
        ("{{'x': {i}}}", "{'x': 1}"),
    ],
)
def test_what_is_filled_in_and_what_stays(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@given(st.text(alphabet="{}ingx\n "))
def test_filling_never_raises_and_leaves_text_without_braces_alone(text: str) -> None:
    filled = fill(text, VALUES)
    if "{" not in text:
        assert filled == text


def test_seeds_differ_from_worker_to_worker_and_not_from_attempt_to_attempt() -> None:
    seeds = [values_for(CARD, index, 64, 0)["seed"] for index in range(64)]
    assert len(set(seeds)) == 64
    assert seeds == [values_for(CARD, index, 8, 5)["seed"] for index in range(64)]


def test_on_a_cpu_slot_the_gpu_is_the_workers_number() -> None:
    assert fill("{slot}:{gpu}", values_for(Slot("cpu1", SlotKind.CPU), 1, 2, None)) == "cpu1:1"
