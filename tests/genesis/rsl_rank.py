"""A rank that trains with rsl_rl's own runner and PPO on a Genesis scene on the CPU, over gloo.

Arguments: how many iterations, and the folder for rsl_rl's logs, without which it prints no table.

rsl_rl 5.5 knows no option for ranks on the CPU: `OnPolicyRunner._configure_multi_gpu` wants the device `cuda:LOCAL_RANK`,
and names NCCL. A subclass answers in its place; all else is rsl_rl's.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch._dynamo  # triton's LLVM before Genesis' own, as in `examples/ddp.py`

import genesis as gs  # isort: skip
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

ENVS, STEPS, ITERATIONS = 4, 4, int(sys.argv[1])


class Runner(OnPolicyRunner):  # type: ignore[misc]  # rsl_rl is not typed
    """rsl_rl's runner with its ranks on the CPU."""

    def _configure_multi_gpu(self) -> None:
        self.gpu_world_size = int(os.environ["WORLD_SIZE"])
        self.gpu_local_rank, self.gpu_global_rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
        self.is_distributed = True
        self.cfg["multi_gpu"] = {
            "global_rank": self.gpu_global_rank,
            "local_rank": self.gpu_local_rank,
            "world_size": self.gpu_world_size,
        }
        torch.distributed.init_process_group("gloo")


class Boxes(VecEnv):  # type: ignore[misc]  # rsl_rl is not typed
    """Boxes adrift, as in `examples/ddp.py`; the nearer to the origin, the better."""

    def __init__(self) -> None:
        scene = gs.Scene(
            sim_options=gs.options.SimOptions(gravity=(0.0, 0.0, 0.0)),
            rigid_options=gs.options.RigidOptions(enable_collision=False, disable_constraint=True),
            profiling_options=gs.options.ProfilingOptions(show_FPS=False),  # as with Genesis' own examples of rsl_rl
            show_viewer=False,
        )
        self._box = scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.5, -0.5, 0.2)))
        scene.build(n_envs=ENVS)
        self._scene = scene
        self.num_envs, self.num_actions, self.max_episode_length = ENVS, 3, 1000
        self.episode_length_buf = torch.zeros(ENVS, dtype=torch.long)
        self.device = "cpu"
        self.cfg: dict[str, Any] = {}

    def get_observations(self) -> TensorDict:
        """Each box's place and velocity, m and m/s."""
        seen = torch.cat((self._box.get_pos(), self._box.get_vel()), dim=1)
        return TensorDict({"policy": seen}, batch_size=[ENVS])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """As rsl_rl wants it."""
        self._box.set_dofs_velocity(actions, dofs_idx_local=[0, 1, 2])
        self._scene.step()
        self.episode_length_buf += 1
        return self.get_observations(), -self._box.get_pos().norm(dim=1), torch.zeros(ENVS, dtype=torch.bool), {}


NET = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
TRAIN: dict[str, Any] = {
    "num_steps_per_env": STEPS,
    "save_interval": 1000,
    "logger": "tensorboard",
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NET, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3}},
    "critic": dict(NET),
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 1},
}

gs.init(backend=gs.cpu, seed=1 + int(os.environ["RANK"]))
runner = Runner(Boxes(), TRAIN, log_dir=sys.argv[2], device="cpu")
runner.learn(ITERATIONS)
torch.distributed.destroy_process_group()
