"""A flood of progress lines says the same whether its lines are read one by one or as one block of like ones."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gmg_tui.genesis.output import lines
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.genesis.output.repeated_lines import LEARN_FROM, RepeatedLines
from tests.genesis_text.samples import fps_line, logged

FORMS = {
    "environments": fps_line(24_013_029.25, 4096),
    "short": fps_line(72.25),
    "verbose time": fps_line(1_234.5, 16).replace(b"06:58:16", b"11-21 06:58:16.123"),
    "no colours": b"[Genesis] [06:58:16] [INFO] Running at 1,989.5 FPS (124.34 FPS per env, 16 envs).\n",
    "raw": b"INFO:genesis:Running at ~<1,989.5>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).\n",
    "after a return": b"\r[Genesis] [06:58:16] [INFO] Running at 1,989.5 FPS.\r\n",
}
UNLIKE = [
    fps_line(2_345.75, 4096),
    fps_line(9_876_543_210.0, 4096).replace(b"06:58:16", b"23:59:59"),
    fps_line(9_999.0, 2048),
    fps_line(8_888.0, 4096).replace(b"8,888", b"8,8,88"),
    fps_line(7_777.0, 4096).rstrip(b"\n") + b"\r\n",
    b" 43%|#### | 43/100 [00:04<00:05, 10.20it/s]" + fps_line(5_555.0, 4096),
    fps_line(6_666.0, 4096).rstrip(b"\n") + fps_line(6_667.0, 4096),
    fps_line(4_444.0),
    FORMS["raw"],
    logged("Building scene <4bc769b>..."),
    b" Learning iteration 3/10\n",
    b"of the script's own\n",
    b"\n",
    b"\r",
]


def at_rate(form: bytes, rate: int) -> bytes:
    """`form` at another rate, at another time of the day; sums of such rates are exact, however they are added up."""
    spread = f"{rate:,}.{25 * (rate % 4):02d}".encode()
    line = lines.FPS.sub(lambda match: match[0].replace(match[2], spread), form)
    return line.replace(b"06:58:16", b"%02d:%02d:%02d" % (rate % 24, rate % 60, rate % 59))


def read(blocks: Iterable[bytes]) -> Reader:
    reader = Reader(gpu_slot=False, started=0.0)
    for block in blocks:
        reader.feed(block, 1.0)
    return reader


def said(reader: Reader) -> tuple[object, ...]:
    return reader.fps, reader.n_envs, reader.phase, reader.progress, reader.had_progress


@pytest.mark.parametrize("name", FORMS)
def test_a_block_of_like_lines_says_what_its_lines_say(name: str) -> None:
    flood = [at_rate(FORMS[name], 1000 + 7 * number) for number in range(3 * LEARN_FROM)]
    whole = read([flood[0], b"".join(flood[1 : 2 * LEARN_FROM]), b"".join(flood[2 * LEARN_FROM :])])
    assert said(whole) == said(read(flood))


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_progress_line_can_be_learnt(name: str) -> None:
    repeated = RepeatedLines()
    repeated.learn(FORMS[name])
    rates = repeated.rates(at_rate(FORMS[name], 1_234_567) + at_rate(FORMS[name], 98))
    assert rates is not None
    assert rates.numbers == [b"1,234,567.75", b"98.50"]


@given(st.lists(st.sampled_from([*UNLIKE, *FORMS.values()]), max_size=8), st.booleans())
@example([fps_line(1_000.0, 4096)], True)
def test_lines_unlike_the_one_learnt_are_read_as_ever(more: list[bytes], cut: bool) -> None:
    flood = [at_rate(FORMS["environments"], 1000 + number) for number in range(2 * LEARN_FROM)]
    block = b"".join(more)[: -1 if cut else None]
    learnt = read([flood[0], b"".join(flood[1:]), block])
    unlearnt = read([*flood, block])
    assert said(learnt) == said(unlearnt)
