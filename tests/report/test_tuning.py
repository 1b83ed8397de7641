"""A report of a tuning: the text, the section of the page with its curve, and files that are damaged."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from gmg_tui.cli import main
from gmg_tui.model import Edge, Tuning
from gmg_tui.report.tune_curve import svg
from gmg_tui.report.tuning import section, text_lines
from gmg_tui.results import tuning as file
from tests import tunings
from tests.report import stored


def _report(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["report", *words])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


async def _session(tuning: Tuning | None = tunings.ENDED) -> Path:
    folder = await stored.session("tune-1", stored.jobs(3))
    if tuning is not None:
        file.write(folder, tuning, session="tune-1", script="sim.py")
    return folder


async def test_the_trials_and_the_answer_take_the_place_of_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    folder = await _session()
    status, out, err = _report("tune-1", capsys=capsys)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[1].split()[:4] == ["#", "n_envs", "slot", "for"]
    assert lines[2].split()[1] == "64"
    assert "fastest  17,000  11,443,958  0.6 %  13.5 GiB     97  610  18.8k" in lines
    assert "run it: gmg-tui franka.py -B 17000 --seed '{seed}'" in lines
    assert lines[-1] == f"tuning: {folder}/tune.json"
    assert all(len(line) <= 80 for line in lines[1 : 2 + len(tunings.ENDED.trials)])


async def test_an_order_that_is_asked_for_is_of_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    await _session()
    _, out, _ = _report("tune-1", "--best", "fps", capsys=capsys)
    assert "job-1" in out
    assert "fastest" not in out


@pytest.mark.parametrize(
    "data",
    [file.encoded(tunings.ENDED)[:900], b"[]", b'{"trials": 3}', b"\x00" * 100],
    ids=["cut", "list", "odd", "zeros"],
)
async def test_a_damaged_file_gives_one_line_and_the_jobs(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    folder = await _session()
    (folder / file.TUNE).write_bytes(data)
    status, out, err = _report("tune-1", capsys=capsys)
    assert status == 0
    assert re.fullmatch(r"gmg-tui: \S+/tune\.json is not a tuning: .*\n", err)
    assert "job-1" in out


async def test_the_page_has_the_curve_and_the_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await _session()
    page = tmp_path / "page.html"
    assert _report("tune-1", "--html", str(page), capsys=capsys)[0] == 0
    text = page.read_text()
    assert "<h2>Tuning: n_envs with the most FPS</h2>" in text
    assert text.count('<svg class="curve"') == 1
    assert "<pre>gmg-tui franka.py -B 17000 --seed &#x27;{seed}&#x27;</pre>" in text


async def test_other_sessions_have_no_such_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await _session(None)
    page = tmp_path / "page.html"
    _report("tune-1", "--html", str(page), capsys=capsys)
    assert "Tuning" not in page.read_text()
    assert 'class="curve"' not in page.read_text()


@pytest.mark.parametrize("name", ["LADDER", "EDGE", "ENDED", "MINIMUM", "TWO_MODELS"])
def test_the_curve_is_an_image_with_every_point(name: str) -> None:
    tuning: Tuning = getattr(tunings, name)
    for answer in tuning.answers:
        root = ET.fromstring(svg(tuning, answer))
        told = [title.text or "" for title in root.iter("title")]
        alone = [
            one for one in tuning.trials if one.rate is not None and one.kind != "together" and one.slot in answer.slots
        ]
        assert sum(" on " in text for text in told) == len(alone)
        xs = [float(circle.get("cx", "nan")) for circle in root.iter("circle")]
        assert all(0 <= x <= 900 for x in xs)


def test_greater_values_stand_further_right_and_greater_rates_higher() -> None:
    root = ET.fromstring(svg(tunings.LADDER, tunings.LADDER.answers[0]))
    found = {}
    for circle in root.iter("circle"):
        title = circle.find("title")
        if title is not None and " on " in (title.text or ""):
            text = title.text or ""
            found[int(text.split()[0].replace(",", ""))] = (float(circle.get("cx", "")), float(circle.get("cy", "")))
    places = [found[value] for value in sorted(found)]
    assert places == sorted(places)
    heights = [y for _, y in places]
    assert heights == sorted(heights, reverse=True)
    steps = [found[4 * value][0] - found[value][0] for value in (64, 256, 1024)]
    assert max(steps) - min(steps) < 1


def test_nothing_measured_is_said() -> None:
    assert "Nothing was measured" in section(tunings.FIRST)
    assert text_lines(tunings.FIRST, 80, colour=False)[-1] == "no value of n_envs was measured"


def test_no_word_of_a_worker_is_markup_or_terminal_control(tmp_path: Path) -> None:
    evil = stored.HOSTILE
    answer = replace(tunings.ENDED.answers[0], model=evil, slots=(evil,), edge=Edge(9, evil), warnings=(evil,))
    trials = (replace(tunings.ENDED.trials[0], slot=evil, reason=evil), replace(tunings.ENDED.trials[1], slot=evil))
    spec = replace(tunings.SPEC, variable=evil, metric=evil)
    file.write(tmp_path, Tuning(spec, evil, trials, (answer, replace(answer)), command=(evil,)))
    recorded = file.read(tmp_path)
    assert recorded is not None
    tuning = recorded.tuning
    page = section(tuning)
    assert page.count("&lt;b&gt;x&lt;/b&gt;") > 5
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page + "".join(text_lines(tuning, 80, colour=False))
    assert "\x07" not in page + "".join(text_lines(tuning, 80, colour=False))


def test_colours_are_of_the_states() -> None:
    lines = text_lines(tunings.ENDED, 120, colour=True)
    assert any("\x1b[31mfailed" in line for line in lines)
    assert "\x1b" not in "".join(text_lines(tunings.ENDED, 120, colour=False))
