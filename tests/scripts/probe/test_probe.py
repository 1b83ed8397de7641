"""The probe in a worker's interpreter: it counts steps, and does not change a script's behaviour."""

import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.scripts.probe.site import gmg_probe as probe
from tests.disks import fill, mounted

from .scripts import SCENE, Sandbox

pytestmark = pytest.mark.process


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_each_step_is_counted_with_its_environments(sandbox: Sandbox) -> None:
    assert sandbox.run(SCENE + "for _ in range(10): assert scene.step() == 'stepped'\n") == ""
    (words,) = sandbox.counted
    assert words["magic"] == probe.MAGIC
    assert (words["steps"], words["environment_steps"], words["environments"]) == (10, 40, 4)
    assert words["phase"] == probe.STEPPING
    assert words["phase_ns"] > 0 < words["first_ns"] < words["last_ns"]


@pytest.mark.parametrize(
    ("code", "determinism"),
    [
        ("", None),
        ("import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n", None),
        ("import torch\n", "off"),
        ("import torch; torch.use_deterministic_algorithms(True)\n", "on"),
    ],
)
def test_the_determinism_of_torch_is_recorded_at_the_first_step(
    sandbox: Sandbox, code: str, determinism: str | None
) -> None:
    sandbox.run(code + SCENE + "scene.step()\n")
    (words,) = sandbox.counted
    assert probe.DETERMINISM[words["determinism"]] == (determinism or "unknown")


@pytest.mark.parametrize(
    ("code", "phase"),
    [
        ("print()", 0),
        ("import genesis", probe.IMPORTING),
        ("import genesis as gs; gs.init()", probe.PHASES.index("initialising")),
        ("import genesis as gs; gs.init(); gs.Scene()", probe.PHASES.index("created")),
        (SCENE, probe.PHASES.index("built")),
        (SCENE + "gs.Scene()", probe.PHASES.index("created")),
        ("import genesis as gs\ngs.Scene.build(gs.Scene(), n_envs=[].pop())", probe.PHASES.index("created")),
    ],
)
def test_the_phase_is_the_last_one_reached(sandbox: Sandbox, code: str, phase: int) -> None:
    sandbox.run(code)
    assert [words["phase"] for words in sandbox.counted] == [phase]


def test_meshes_are_written_while_kernels_are_compiled(sandbox: Sandbox) -> None:
    sandbox.run("import genesis as gs\ngs.Scene().build.__func__.__wrapped__(gs.Scene())")
    (words,) = sandbox.counted
    assert words["phase"] == probe.PHASES.index("compiling")


def test_a_step_that_raises_propagates_and_is_not_counted(sandbox: Sandbox) -> None:
    output = sandbox.run(SCENE + "scene.step()\nscene.step(fail=True)\n")
    assert output.endswith("ValueError: too fast\n")
    assert sandbox.counted[0]["steps"] == 1


def test_a_wrapped_method_keeps_its_signature_and_docstring(sandbox: Sandbox) -> None:
    code = (
        "import genesis as gs, inspect; print(gs.Scene.step.__doc__, inspect.signature(gs.Scene.step), gs.init.__doc__)"
    )
    assert sandbox.run(code) == "One step. (self, fail=False) Begin.\n"


def test_nested_environments_count_once_and_the_simulator_wins(sandbox: Sandbox) -> None:
    vector = (
        "from gymnasium.vector import *\nenvs = VectorWrapper(SyncVectorEnv({step}))\nfor _ in range(5): envs.step(0)\n"
    )
    sandbox.run(vector.format(step=""))
    assert [(words["kind"], words["environment_steps"]) for words in sandbox.counted] == [
        (probe.KINDS.index("vector"), 15)
    ]
    sandbox.run(SCENE + vector.format(step="scene.step"))
    assert {(words["kind"], words["environment_steps"]) for words in sandbox.counted} == {
        (probe.KINDS.index("vector"), 15),
        (probe.KINDS.index("simulator"), 20),
    }


def test_steps_of_mjlab_are_counted(sandbox: Sandbox) -> None:
    sandbox.run("from mjlab.envs.manager_based_rl_env import ManagerBasedRlEnv as E\nfor _ in range(5): E().step(0)\n")
    assert [(words["kind"], words["environment_steps"]) for words in sandbox.counted] == [
        (probe.KINDS.index("simulator"), 30)
    ]


def test_steps_of_all_threads_are_counted(sandbox: Sandbox) -> None:
    # Each thread ends its step while all others are in theirs.
    code = (
        "from gymnasium.vector import *\nimport threading\n"
        "barrier = threading.Barrier(3)\n"
        "envs = VectorWrapper(SyncVectorEnv(barrier.wait))\n"
        "def work():\n    for _ in range(5): envs.step(0)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
    )
    assert sandbox.run(code) == ""
    assert [(words["steps"], words["environment_steps"]) for words in sandbox.counted] == [(15, 45)]


_CHILD = "def work():\n    from genesis import Scene\n    scene = Scene()\n    scene.build()\n    for _ in range(7): scene.step()\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_counts_separately(sandbox: Sandbox, method: str) -> None:
    code = _CHILD + (
        "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    work()\n"
        f"    child = multiprocessing.get_context('{method}').Process(target=work)\n"
        "    child.start()\n    child.join()\n    work()\n"
    )
    assert sandbox.run(code) == ""
    assert sorted(words["environment_steps"] for words in sandbox.counted) == [7, 14]


def test_counting_continues_when_a_script_executes_itself(sandbox: Sandbox) -> None:
    code = (
        "import os, sys\n" + SCENE + "for _ in range(3): scene.step()\n"
        "if 'AGAIN' not in os.environ: os.execve(sys.executable, [sys.executable, __file__], {**os.environ, 'AGAIN': '1'})\n"
    )
    assert sandbox.run(code) == ""
    assert [(words["steps"], words["environment_steps"]) for words in sandbox.counted] == [(6, 24)]
    assert sandbox.counted[0]["phase"] == probe.PHASES.index("stepping")


@pytest.mark.parametrize("number", ["float", "numpy.int32"])
def test_the_number_of_environments_may_be_of_any_numeric_type(sandbox: Sandbox, number: str) -> None:
    code = f"import genesis as gs, numpy\nscene = gs.Scene()\nscene.build({number}(2**30))\nfor _ in range(5): scene.step()"
    assert sandbox.run(code) == ""
    assert sandbox.counted[0]["environment_steps"] == 5 * 2**30


def test_a_child_that_does_not_simulate_writes_no_file(sandbox: Sandbox) -> None:
    code = "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import json'])\nif not os.fork(): os._exit(0)\n"
    assert sandbox.run(code + "os.wait()") == ""
    assert len(sandbox.counted) == 1


@pytest.mark.parametrize("option", ["-I", "-S"])
def test_an_isolated_python_runs_without_the_probe(sandbox: Sandbox, option: str) -> None:
    packages = f"import sys; sys.path.insert(0, {str(sandbox.packages)!r})\n"
    assert sandbox.run(packages + SCENE + "print(scene.step())", option) == "stepped\n"
    assert sandbox.counted == []


def test_the_sitecustomize_of_the_user_runs_and_may_import_genesis(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(0, {str(sandbox.packages)!r})\n{SCENE}"
    )
    assert (
        sandbox.run("import genesis; print(genesis.Scene.step.__doc__)", PYTHONPATH=str(tmp_path / "foreign"))
        == "One step.\n"
    )
    assert sandbox.counted[0]["phase"] == probe.PHASES.index("built")


def test_a_removed_folder_does_not_fail_the_script(sandbox: Sandbox) -> None:
    remove = f"import shutil; shutil.rmtree({str(sandbox.folder)!r})\n"
    assert sandbox.run(SCENE + remove + "print(scene.step())") == "stepped\n"
    assert sandbox.run(SCENE + "print(scene.step())") == "stepped\n"


def test_a_full_disk_does_not_fail_the_script(sandbox: Sandbox) -> None:
    with mounted(sandbox.folder, "-t", "tmpfs", "-o", "size=8k", "gmg-tui-test") as disk:
        fill(disk / "full")
        assert sandbox.run(SCENE + "print(scene.step())") == "stepped\n"


def test_the_probe_imports_only_a_few_standard_modules() -> None:
    code = "import sys; before = set(sys.modules); import gmg_probe; print(*sorted(set(sys.modules) - before))"
    site = Path(probe.__file__).parent
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert set(done.stdout.split()) <= {"_struct", "gmg_probe", "struct"}


def test_the_time_of_steps_learning_and_rendering_is_separated(sandbox: Sandbox) -> None:
    files = {
        "genesis/vis/__init__.py": "",
        "genesis/vis/camera.py": "import time\nclass Camera:\n    def render(self): time.sleep(0.02)\n",
        "gymnasium/wrappers/__init__.py": "",
        "gymnasium/wrappers/common.py": "class OrderEnforcing:\n    def render(self, camera): camera.render()\n",
        "torch/__init__.py": "",
        "torch/_tensor.py": "class Tensor:\n    def backward(self): pass\n",
    }
    for name, text in files.items():
        (sandbox.packages / name).parent.mkdir(parents=True, exist_ok=True)
        (sandbox.packages / name).write_text(text)
    code = (
        "import genesis as gs, time\nfrom genesis.vis.camera import Camera\nfrom torch._tensor import Tensor\n"
        "from gymnasium.wrappers.common import OrderEnforcing\n"
        "scene = gs.Scene()\nscene.n_envs = 4\n"
        "OrderEnforcing().render(Camera())\n"  # counted once
        "for _ in range(5): Tensor().backward(); time.sleep(0.02)\n"  # the time between two is learning
        "scene.step()\n"
        "time.sleep(0.05)\n"  # the script's own
        "Tensor().backward()\n"
    )
    assert sandbox.run(code) == ""
    (words,) = sandbox.counted
    assert words["rendering_ns"] >= 20e6
    assert words["learning_ns"] >= 80e6
    assert words["simulator_ns"] > 0


def test_rendering_within_a_step_is_not_the_simulators(sandbox: Sandbox) -> None:
    (sandbox.packages / "genesis/vis").mkdir(parents=True)
    (sandbox.packages / "genesis/vis/__init__.py").write_text("")
    (sandbox.packages / "genesis/vis/camera.py").write_text(
        "import time\nclass Camera:\n    def render(self): time.sleep(0.05)\n"
    )
    vector = "from gymnasium.vector import SyncVectorEnv\nfrom genesis.vis.camera import Camera\n"
    sandbox.run(vector + "SyncVectorEnv(Camera().render).step(0)\n")
    (words,) = sandbox.counted
    assert words["rendering_ns"] >= 50e6 > words["simulator_ns"]
