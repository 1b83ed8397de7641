"""`doctor --nodes`: the checks on each of several machines, and whether these are alike."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from gmg_tui import units
from gmg_tui.commands import over_nodes
from gmg_tui.commands.doctor import line
from gmg_tui.commands.doctor.facts import Examined
from gmg_tui.commands.doctor.finding import Finding, Verdict, fail, ok, warn
from gmg_tui.commands.over_nodes import Answer, named

_SKEW_S = 2.0
"""How far a clock may be off, which is more than an answer takes on its way."""
_MOST = 8
"""Nodes whose clocks are named."""
_ADVICE = {
    "gmg-tui": "install the same version on all: others are refused",
    "Genesis": "install the same version on all: others are refused",
    "torch": "install the same version on all: the ranks of a group may not understand each other",
    "clock": "start an NTP service there (timedatectl set-ntp true)",
}
"""What helps where nodes differ in a fact."""


def doctor(python: str | None, *, as_json: bool, where: str) -> int:
    """Print each finding with the nodes that have it, then what differs between them, or all as JSON.

    Returns 1 when a plain run would fail on a node, or one cannot be asked; else 0. Raises `GmgError` where the nodes are
    not available.
    """
    words = ("doctor", "--facts", *(("--python", python) if python is not None else ()))
    answers = over_nodes.ask(where, words, "running the checks")
    examined, unread = _examined(answers)
    compared = [*unread, *compare(examined, {node: answer.said for node, answer in answers.items()})]
    if as_json:
        rows: list[dict[str, Any]] = [
            {"node": node, **msgspec.to_builtins(finding)} for node, one in examined.items() for finding in one.findings
        ]
        over_nodes.print_json([*rows, *({"node": None, **msgspec.to_builtins(finding)} for finding in compared)])
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for finding in (*together({node: one.findings for node, one in examined.items()}, len(answers)), *compared):
            print(line(finding, columns))
    verdicts = [finding.verdict for one in examined.values() for finding in one.findings]
    return int(Verdict.FAIL in (*verdicts, *(finding.verdict for finding in compared)))


def _examined(answers: Mapping[str, Answer]) -> tuple[dict[str, Examined], list[Finding]]:
    """What the nodes have answered, and for each that has not why."""
    found: dict[str, Examined] = {}
    errors: dict[str, list[str]] = {}
    for node, answer in answers.items():
        error = answer.error
        if not error:
            try:
                found[node] = msgspec.convert(answer.value, Examined)
            except msgspec.ValidationError:
                error = "another version of gmg-tui, whose answer is not understood"
        if error:
            errors.setdefault(error, []).append(node)
    advice = "see that `gmg-tui doctor` runs there"
    return found, [fail("node", f"{named(nodes, len(answers))}: {error}", advice) for error, nodes in errors.items()]


def together(findings: Mapping[str, Sequence[Finding]], count: int) -> Iterator[Finding]:
    """The findings of nodes check by check, each once, with those of all `count` nodes that have it."""
    have: dict[str, dict[Finding, list[str]]] = {}
    for node, those in findings.items():
        for finding in those:
            have.setdefault(finding.check, {}).setdefault(finding, []).append(node)
    for alike in have.values():
        for finding, nodes in alike.items():
            yield structs.replace(finding, found=f"{named(nodes, count)}: {finding.found}")


def compare(examined: Mapping[str, Examined], said: Mapping[str, float]) -> Iterator[Finding]:
    """What differs between the nodes, and what does not; `said` is when each of all answered by this machine's clock."""
    facts = dict.fromkeys(name for one in examined.values() for name in one.facts)
    for fact in facts:
        values: dict[str, list[str]] = {}
        for node, one in examined.items():
            values.setdefault(one.facts.get(fact, units.NOT_KNOWN), []).append(node)
        if len(values) == 1:
            yield ok(fact, f"the same on {named(examined, len(said))}: {next(iter(values))}")
        else:
            text = "; ".join(f"{named(nodes, len(said))}: {value}" for value, nodes in values.items())
            yield warn(fact, f"differs: {text}", _ADVICE.get(fact))
    off = {node: one.time - said[node] for node, one in examined.items()}
    wrong = {node: skew_s for node, skew_s in off.items() if abs(skew_s) > _SKEW_S}
    if wrong:
        texts = (
            f"{node} is {units.span(abs(skew_s))} {'ahead' if skew_s > 0 else 'behind'}"
            for node, skew_s in sorted(wrong.items(), key=lambda one: -abs(one[1]))[:_MOST]
        )
        more = f" and {len(wrong) - _MOST} more are off" if len(wrong) > _MOST else ""
        yield warn("clock", f"against this machine's {', '.join(texts)}{more}", _ADVICE["clock"])
    elif off:
        yield ok("clock", f"at most {max(map(abs, off.values())):.1f} s from this machine's")
