"""Scripts under the probe, with small stand-ins for Genesis and gymnasium."""

import os
import subprocess
import sys
from pathlib import Path

from gmg_tui.scripts import probe
from gmg_tui.scripts.probe.site import gmg_probe

_FILES = {
    "genesis/__init__.py": "from genesis.engine.scene import Scene\ndef init(**_): 'Begin.'\n",
    "genesis/engine/__init__.py": "",
    "genesis/engine/simulator.py": "class Simulator:\n    def build(self): pass\n",
    "genesis/engine/scene.py": """
from genesis.engine.simulator import Simulator
class Scene:
    def __init__(self): self.sim = Simulator()
    def build(self, n_envs=0):
        self.n_envs = n_envs
        self.sim.build()
    def step(self, fail=False):
        'One step.'
        if fail: raise ValueError('too fast')
        return 'stepped'
""",
    "mjlab/__init__.py": "",
    "mjlab/envs/__init__.py": "",
    "mjlab/envs/manager_based_rl_env.py": """
class ManagerBasedRlEnv:
    num_envs = property(lambda self: 6)
    def step(self, action): pass
""",
    "gymnasium/__init__.py": "",
    "gymnasium/vector/__init__.py": """
class VectorEnv:
    num_envs = 3
    def step(self, actions): raise NotImplementedError
class SyncVectorEnv(VectorEnv):
    def __init__(self, step=lambda: None): self.inner = step
    def step(self, actions): self.inner()
class AsyncVectorEnv(VectorEnv): pass
class VectorWrapper(VectorEnv):
    def __init__(self, env): self.env = env
    def step(self, actions): return self.env.step(actions)
""",
}
SCENE = "import genesis as gs\ngs.init()\nscene = gs.Scene()\nscene.build(n_envs=4)\n"


class Sandbox:
    """Runs Python with the probe, which writes into `folder`."""

    def __init__(self, tmp_path: Path) -> None:
        self.packages, self.folder = tmp_path / "packages", tmp_path / "counts"
        self.folder.mkdir()
        for name, text in _FILES.items():
            file = self.packages / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def run(self, code: str, *options: str, **env: str) -> str:
        """The output of a script, both streams; its file is in the folder of the packages."""
        script = self.packages / "script.py"
        script.write_text(code)
        environ = {**os.environ, **env, probe.FOLDER_VARIABLES[0]: str(self.folder)}
        environ |= probe.python_path(environ)
        done = subprocess.run(
            [sys.executable, *options, str(script)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode >= 0, done.returncode
        return done.stdout

    @property
    def counted(self) -> list[dict[str, int]]:
        """Returns the counts of each process by PID."""
        files = sorted((file for file in self.folder.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
        words = (gmg_probe.WORDS.unpack_from(file.read_bytes()) for file in files)
        return [dict(zip(gmg_probe.NAMES, each, strict=True)) for each in words]
