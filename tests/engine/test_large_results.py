"""Results that no message can hold, or only a very long one: kept exactly, and in nobody's way."""

import json
import math
import os
from pathlib import Path

import msgspec
import pytest

from gmg_tui import session
from gmg_tui.engine.api.client import _error_answer, encode_answer
from gmg_tui.model import Details
from gmg_tui.scripts.readers.reported import MAX_TOTAL_BYTES, ReportedResults
from gmg_tui.session import protocol
from gmg_tui.session.protocol import Answer
from gmg_tui.session.store import reader

from .harness import program, running, spec_for, sweep_for

SEED = 123456789012345678901
_SCRIPT = f"""
import json
print("gmg:result", json.dumps({{"seed": {SEED}, "other": -{SEED}}}))
for number in range(30):
    print("gmg:result", json.dumps({{f"log-{{number}}": "x" * 30_000}}))
"""


async def test_the_queue_is_sent_whatever_its_jobs_have_reported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    spec = sweep_for([{}] * 6, program(script=str(script)), cpu=2)
    async with running(spec) as run:
        await run.until_done()
        view = await run.client.queue(0, 500)
        assert [job.result for job in view] == [{}] * 6
    stored = reader.load_jobs(run.folder / session.STORE)  # written beside the engine's loop, up to its end
    results = [job.result or {} for job in stored]
    assert {(result["seed"], result["other"], len(result["log-29"])) for result in results} == {
        (str(SEED), str(-SEED), 30_000)
    }
    detailed = json.loads((run.folder / "detailed_results.json").read_text())
    assert {job["result"]["seed"] for job in detailed["jobs"]} == {str(SEED)}


def _received(answer: Answer) -> Answer:
    message = protocol._message_decoder.decode(encode_answer(answer)[4:])
    assert isinstance(message, Answer)
    return message


def test_an_answer_that_cannot_be_sent_fails_its_request() -> None:
    details = Details("cpu0", (), "/", {"NAME": 1 << 64}, (), "", ())  # type: ignore[dict-item]
    with pytest.raises(OverflowError) as raised:
        Answer.with_value(7, details)
    assert (_received(_error_answer(7, raised.value)).error or "").startswith("internal error (OverflowError: ")


def test_an_answer_is_decoded_only_by_whoever_asked() -> None:
    lists: list[list[int]] = [[]] * 100_000
    answer = _received(Answer.with_value(7, lists))
    assert isinstance(answer.value, msgspec.Raw)
    assert msgspec.msgpack.decode(answer.value) == lists
    assert _received(Answer(8)).value == protocol.NOTHING


def test_the_newest_value_of_each_name_counts_and_the_total_is_limited() -> None:
    reported = ReportedResults()
    for step in range(1000):
        reported.read(b'[log] gmg:result {"step": %d, "blob": "%s"}\nother\n' % (step, b"x" * 10_000))
    assert reported.values == {"step": 999, "blob": "x" * 10_000}
    assert reported.trouble is None
    for number in range(200):
        reported.read(b'gmg:result {"name-%d": "%s"}\n' % (number, b"y" * 10_000))
    assert MAX_TOTAL_BYTES - 20_000 < sum(map(len, map(str, reported.values.values()))) <= MAX_TOTAL_BYTES
    assert reported.trouble == "gmg:result: 'name-199' is ignored: the limit is 1 MiB"
    reported.read(b'gmg:result {"step": 1000, "name-0": "small"}\n')
    assert (reported.values["step"], reported.values["name-0"]) == (1000, "small")


def test_the_names_of_a_session_are_limited() -> None:
    names = set[str]()
    first, second = ReportedResults(names), ReportedResults(names)
    for reported, start in ((first, 0), (second, 600)):
        reported.read(b"gmg:result {%s}" % b", ".join(b'"n%d": 1' % number for number in range(start, start + 600)))
    assert (len(first.values), len(second.values), first.trouble) == (600, 400, None)
    assert second.trouble == "gmg:result: 'n1199' is ignored: a session has at most 1,000 names"
    second.read(b'gmg:result {"n0": 2}')
    assert second.values["n0"] == 2


@pytest.mark.parametrize("names", [b"NaN -Infinity", b"nan -inf"])
def test_nan_and_infinity_are_kept(names: bytes) -> None:
    reported = ReportedResults()
    reported.read(b'gmg:result {"loss": %b, "best": %b, "step": 3}\n' % tuple(names.split()))
    assert reported.values == pytest.approx({"loss": math.nan, "best": -math.inf, "step": 3}, nan_ok=True)
    assert reported.trouble is None


def test_numbers_are_metrics() -> None:
    line = b'gmg:result {"loss": 0.5, "fast": true, "label": "x", "of": [1], "steps": 3}\n'
    assert ReportedResults().read(line) == {"loss": 0.5, "steps": 3.0}


def test_a_line_without_an_object_is_reported() -> None:
    reported = ReportedResults()
    reported.read(b'gmg:result {"loss": }\ngmg:result [NaN]\ngmg:result {"loss": 1}\n')
    assert reported.values == {"loss": 1}
    assert (reported.trouble or "").startswith("a gmg:result line is not a JSON object: ")


def test_a_value_out_of_range_leaves_the_others_of_its_line() -> None:
    reported = ReportedResults()
    line = (
        b'gmg:result {"a": 1.5, "big": 1e400, "huge": 1e99999999999999999999, "of": [{"x": -1e999}], "digits": %s, "b": nan}\n'
        % (b"9" * 5000)
    )
    assert reported.read(line).keys() == reported.values.keys() == {"a", "b"}
    assert reported.trouble == "gmg:result: 'digits' is ignored: its number is out of range"


def test_source_in_a_traceback_is_no_result() -> None:
    reported = ReportedResults()
    reported.read(b"    print(\"gmg:result \" + json.dumps(result))\n    print(f'gmg:result {json.dumps(result)}')\n")
    assert (reported.values, reported.trouble) == ({}, None)


def test_text_that_is_no_unicode_is_reported_beside_nan_too() -> None:
    reported = ReportedResults()
    reported.read(b'gmg:result {"a": NaN, "k": "\\ud800"}\ngmg:result {"loss": 1}\n')
    assert reported.values == {"loss": 1}
    assert (reported.trouble or "").startswith("a gmg:result line is not a JSON object: ")


def test_values_that_json_cannot_encode_are_kept_as_text_or_reported() -> None:
    reported = ReportedResults()
    reported.read(b'gmg:result {"seed": 123456789012345678901234567890, "of": [{"n": -9223372036854775809}], "n": 1}\n')
    assert reported.values == {"seed": "123456789012345678901234567890", "of": [{"n": "-9223372036854775809"}], "n": 1}
    msgspec.msgpack.encode(reported.values)
    reported.read(b'gmg:result {"deep": %s1%s}\n' % (b"[" * 500, b"]" * 500))
    assert "nested" in (reported.trouble or "")
    reported.add({"n": float("nan"), "loss": float("inf"), "fps": 2.0})
    assert [str(reported.values[name]) for name in ("n", "fps", "loss")] == ["nan", "2.0", "inf"]


async def test_text_that_is_no_unicode_keeps_no_client_and_no_file_from_a_session(tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(
        f"""import os, time
os.makedirs(folder := {os.fsencode(tmp_path)!r} + b"/\\xff", exist_ok=True)
os.chdir(folder)
file = open("model.pt", "wb")
print('gmg:result {{"\\\\ud800": NaN}}', flush=True)
time.sleep(1000)
"""
    )
    async with running(spec_for(script=str(script), cpu=2)) as run:
        await run.until(lambda snapshot: "?/model.pt" in str(snapshot.workers))
        await run.client.end(kill=True)
        await run.leave()
        assert await run.process.wait() == 0
        assert "not a JSON object" in run.log()
        assert "Error" not in run.log()
        assert run.record().ended is not None
        assert "?/model.pt" in str(run.summary())
        with reader.open_store(run.folder / session.STORE) as stored:
            assert "?/model.pt" in str(stored.attempts)


def test_lists_count_for_what_they_take_in_memory() -> None:
    """A million of them would also stop Python for minutes, as its garbage collector looks at all of them."""
    reported = ReportedResults()
    reported.read(b'gmg:result {"points": [%s1], "few": [[1, 2], [3, 4]]}\n' % (b"[]," * 20_000))
    assert [*reported.values] == ["few"]
    assert reported.trouble == "gmg:result: 'points' is ignored: the limit is 1 MiB"
