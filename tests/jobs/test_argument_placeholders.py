"""Placeholders in arguments and environment."""

import pytest

from gmg_tui.jobs.argument_placeholders import fill, fill_some, names_in, values_for
from gmg_tui.model import Gpu, Slot

CARD = Slot("gpu3", Gpu(3, "GPU-1234", "NVIDIA H100"))
VALUES = values_for(CARD, 1, 8, 5)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("run-{i}", "run-1"),
        ("{slot}/{gpu}/{i}/{n}", "gpu3/5/1/8"),
        ("{i}{i}", "11"),
        ("{{i}}", "{i}"),
        ("{{{i}}}", "{1}"),
        ("{other} {} { i } {I}", "{other} {} { i } {I}"),
        ("${oc.env:HOME}", "${oc.env:HOME}"),
        ("${oc.env:RUN_{i}}", "${oc.env:RUN_1}"),
        ('{"a": {"b": {i}}}', '{"a": {"b": 1}}'),
        ('{{"a": {{"b": {i}}}}}', '{"a": {"b": 1}}'),
        ("{{'x': {i}}}", "{'x': 1}"),
    ],
)
def test_known_placeholders_are_filled_in_and_others_kept(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


def test_seeds_differ_between_workers_but_not_between_attempts() -> None:
    seeds = [values_for(CARD, index, 64, 0)["seed"] for index in range(64)]
    assert len(set(seeds)) == 64
    assert seeds == [values_for(CARD, index, 8, 5)["seed"] for index in range(64)]


def test_on_a_cpu_slot_the_gpu_is_the_workers_number() -> None:
    assert fill("{slot}:{gpu}", values_for(Slot("cpu1"), 1, 2, None)) == "cpu1:1"


JOB = {"lr": 0.3, "optim.lr": 1e-05, "method": "sde {lr} {{x}}", "on": True, "off": False, "batch-size": 4}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--lr={lr} {optim.lr} {batch-size}", "--lr=0.3 1e-05 4"),
        ("{method} {on},{off}", "sde {lr} {{x}} true,false"),
        ("{{lr}} ${lr} {lr {absent}", "{lr} ${lr} {lr {absent}"),
    ],
)
def test_the_values_of_a_job_are_filled_in_once(text: str, filled: str) -> None:
    assert fill(text, JOB) == filled


def test_the_placeholders_of_a_text_are_listed() -> None:
    assert names_in("{a}-{b.c} {a} {{d}} ${e} {{{f}}} { g } {} {h-} {1} ${x:{y}}") == ("a", "b.c", "f", "y")


@pytest.mark.parametrize("value", ["x", "{i}", "{{i}}", "}", True, 7])
@pytest.mark.parametrize("text", ["{a}-{i}", "{{a}} {a} {{{a}}}", "${a} {unknown} {a}", '{"k": {"a": "{a}"}}'])
def test_filling_in_two_steps_equals_filling_at_once(text: str, value: object) -> None:
    some = fill_some(text, {"a": value})
    assert fill(some, {"i": 3, "slot": "gpu0"}) == fill(text, {"i": 3, "slot": "gpu0", "a": value})
