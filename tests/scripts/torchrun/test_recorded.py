"""The exceptions that ranks record: torch's files, and hostile ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.output.failures import FailureKind, explain_recorded
from gmg_tui.scripts.torchrun import RecordedError, read_error_file

_SCRIPT = """
from torch.distributed.elastic.multiprocessing.errors import record

class OddError(Exception):
    pass

@record
def main():
    raise OddError("no such\\nrobot \\udc80")

main()
"""


def test_errors_recorded_by_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path, script = tmp_path / "error.json", tmp_path / "train.py"
    script.write_text(_SCRIPT)
    environ = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(path)}
    done = subprocess.run([sys.executable, str(script)], env=environ, capture_output=True, check=False)
    assert done.returncode == 1
    error = read_error_file(path)
    assert error is not None
    assert error.message.startswith("OddError: no such\nrobot ")
    assert error.traceback.startswith("Traceback (most recent call last)")
    failure = explain_recorded(error)
    assert (failure.kind, failure.reason) == (FailureKind.SCRIPT, "OddError: no such")
    assert "error.json" in failure.advice  # its log has nothing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"message": "the sky fell"}', RecordedError("the sky fell", "")),
        ('{"message": {"message": "E: x"}}', RecordedError("E: x", "")),
        ('{"message": 3}', None),
        (
            '{"message": {"message": "E: x", "extraInfo": {"py_callstack": "T"}, "errorCode": 1}}',
            RecordedError("E: x", "T"),
        ),
        ('{"message": " \\n"}', None),
        ("{", None),
        ("[" * 200_000, None),
        (f'{{"message": "{"x" * (1 << 20)}"}}', None),
    ],
)
def test_files_without_an_error_are_ignored(tmp_path: Path, text: str, expected: RecordedError | None) -> None:
    path = tmp_path / "error.json"
    path.write_text(text)
    assert read_error_file(path) == expected


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    assert read_error_file(path) is None
    os.mkfifo(path)
    assert read_error_file(path) is None


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (
            RecordedError(
                "OutOfMemoryError: CUDA out of memory.",
                "Traceback (most recent call last)\ntorch.OutOfMemoryError: CUDA out of memory.\n",
            ),
            FailureKind.MEMORY,
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        (RecordedError("the sky\x1b[31m fell\nand more", ""), FailureKind.SCRIPT, "the sky fell"),
        (RecordedError("x" * 5000, ""), FailureKind.SCRIPT, "x" * 200),
    ],
)
def test_the_recorded_error_is_the_reason_of_the_failure(error: RecordedError, kind: FailureKind, reason: str) -> None:
    failure = explain_recorded(error)
    assert (failure.kind, failure.reason) == (kind, reason)
    assert failure.advice


def test_of_a_long_recorded_error_only_the_last_lines_are_searched() -> None:
    """Exceptions that name each other as causes are searched pair by pair."""
    chain = "The above exception was the direct cause of the following exception:"
    trace = "\n".join(["RuntimeError: CUDA out of memory", *[chain] * 30_000, "ValueError: wrong"])
    failure = explain_recorded(RecordedError("ValueError: wrong", trace))
    assert (failure.kind, failure.reason) == (FailureKind.SCRIPT, "ValueError: wrong")
