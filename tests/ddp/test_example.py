"""Which GPU a rank of the example takes, with stand-ins for Genesis and torch that print their arguments and exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[2] / "gmg_tui" / "examples" / "ddp.py")
_SAYS = "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\nos._exit(0)\n"


@pytest.mark.parametrize(
    ("given", "local_rank", "taken"),
    [
        (None, "1", "1"),  # torchrun by itself
        ("4,6", "1", "6"),  # all of the group's cards in sight
        ("6", "0", "6"),  # --virtual-local-rank
        ("GPU-a,MIG-b", "1", "MIG-b"),
        ("", "1", ""),  # on the CPU
    ],
)
def test_a_rank_takes_its_own_gpu_before_dynamo_is_imported(
    tmp_path: Path, given: str | None, local_rank: str, taken: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "_dynamo.py").write_text("import sys\nassert 'genesis' not in sys.modules\n" + _SAYS)
    environ = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
        "RANK": "3",
        "LOCAL_RANK": local_rank,
    }
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    if given is not None:
        environ["CUDA_VISIBLE_DEVICES"] = given
    done = subprocess.run([sys.executable, EXAMPLE], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{taken}\n", "")


def test_outside_a_group_the_example_prints_how_to_start_it() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run([sys.executable, EXAMPLE], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "start it with gmg-tui --ddp, or with torchrun" in done.stderr
