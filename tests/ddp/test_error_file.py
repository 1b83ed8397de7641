"""The exception that a rank has recorded: as torch writes it, and as nobody should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ddp.error_file import Recorded, read
from gmg_tui.genesis.output.failures import FailureKind, explain_recorded

_SCRIPT = """
from torch.distributed.elastic.multiprocessing.errors import record

class OddError(Exception):
    pass

@record
def main():
    raise OddError("no such\\nrobot \\udc80")

main()
"""


def test_what_torch_itself_records(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path, script = tmp_path / "error.json", tmp_path / "train.py"
    script.write_text(_SCRIPT)
    environ = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(path)}
    done = subprocess.run([sys.executable, str(script)], env=environ, capture_output=True, check=False)
    assert done.returncode == 1
    found = read(path)
    assert found is not None
    assert found.message.startswith("OddError: no such\nrobot ")
    assert found.traceback.startswith("Traceback (most recent call last)")
    failure = explain_recorded(found)
    assert (failure.kind, failure.reason) == (FailureKind.SCRIPT, "OddError: no such")
    assert "error.json" in failure.advice  # its log has nothing


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"message": "the sky fell"}, Recorded("the sky fell", "")),
        ({"message": {"message": "ValueError: x"}}, Recorded("ValueError: x", "")),
        ({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": 3}}}, Recorded("ValueError: x", "")),
        ({"message": {"message": "E: x", "extraInfo": {"py_callstack": "T"}, "errorCode": 1}}, Recorded("E: x", "T")),
        ({"message": {"message": 3}}, None),
        ({"message": " \n"}, None),
        ({"message": None}, None),
        ({}, None),
        ([1], None),
        ("text", None),
    ],
)
def test_other_forms(tmp_path: Path, told: Any, expected: Recorded | None) -> None:
    path = tmp_path / "error.json"
    path.write_text(json.dumps(told))
    assert read(path) == expected


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[" * 200_000, b'{"message": "' + b"x" * (1 << 20) + b'"}'])
def test_a_file_that_is_no_use(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "error.json"
    path.write_bytes(data)
    assert read(path) is None


_TEXT = st.text(st.characters(), max_size=40)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack", "x"]), inner, max_size=4),
    ),
    max_leaves=8,
)


@given(_JSON)
def test_whatever_is_recorded_it_is_one_line_or_nothing(told: Any) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(told, file)
        file.flush()
        found = read(Path(file.name))
    if found is not None:
        failure = explain_recorded(found)
        assert failure.reason
        assert "\n" not in failure.reason


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder", "zero"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "error.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    assert read(path) is None


@pytest.mark.parametrize(
    ("recorded", "kind", "reason"),
    [
        (Recorded("ValueError: rank 1 dies here", ""), FailureKind.SCRIPT, "ValueError: rank 1 dies here"),
        (
            Recorded(
                "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    g()\n'
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n",
            ),
            FailureKind.MEMORY,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        ),
        (Recorded("the sky\x1b[31m fell\nand more", ""), FailureKind.SCRIPT, "the sky fell"),
        (Recorded("x" * 5000, ""), FailureKind.SCRIPT, "x" * 200),
    ],
)
def test_why_a_rank_failed_that_has_recorded_it(recorded: Recorded, kind: FailureKind, reason: str) -> None:
    failure = explain_recorded(recorded)
    assert (failure.kind, failure.reason) == (kind, reason)
    assert failure.advice
