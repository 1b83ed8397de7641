"""A Genesis script that trains with rsl_rl until it is interrupted, and prints its iterations alone.

It writes to FILE how many environment steps were done when each iteration had stepped, when that was, and the seconds
spent until then in the simulator's steps and in learning.
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import genesis as gs
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("-B", "--num_envs", type=int, default=8)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--save_interval", type=int, default=1_000_000)
parser.add_argument("--log_dir")
parser.add_argument("--checkpoint")
args = parser.parse_args()

torch.manual_seed(args.seed)  # Genesis compiles all kernels again for each seed that it is given itself
gs.init(backend=gs.cpu, logging_level="warning")
scene = gs.Scene(show_viewer=False, profiling_options=gs.options.ProfilingOptions(show_FPS=False))
scene.add_entity(gs.morphs.Plane())
for i in range(4):  # the scene of light.py, whose kernels are compiled already
    box = scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.05 * i, 0.0, 0.5 + 0.3 * i)))
scene.build(n_envs=args.num_envs)
periods: list[str] = []
spent_s = {"stepping": 0.0, "learning": 0.0}


def timed(what: str, call: Callable[[], object]) -> object:
    """Call it, and add up how long it took."""
    began = time.monotonic()
    result = call()
    spent_s[what] += time.monotonic() - began
    return result


class Boxes(VecEnv):  # type: ignore[misc]
    """Reward for the height of a box, which the actions cannot change."""

    def __init__(self) -> None:
        self.num_envs, self.num_actions, self.max_episode_length = args.num_envs, 2, 50
        self.episode_length_buf = torch.zeros(args.num_envs, dtype=torch.long)
        self.device, self.steps = "cpu", 0
        self.cfg: dict[str, object] = {}

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": box.get_pos().clone()}, batch_size=[args.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        timed("stepping", scene.step)
        self.steps += 1
        if self.steps % 24 == 0:
            times = f"{time.monotonic()} {spent_s['stepping']} {spent_s['learning']}"
            periods.append(f"{args.num_envs * self.steps} {times}")
        self.episode_length_buf += 1
        done = self.episode_length_buf >= self.max_episode_length
        self.episode_length_buf[done] = 0
        return self.get_observations(), box.get_pos()[:, 2].clone(), done.long(), {"time_outs": done}


model = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
config = {
    "num_steps_per_env": 24,
    "save_interval": args.save_interval,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
    "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
    "critic": model,
}
# Without a folder it prints nothing; its writer's thread may write into it to the last.
with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    runner = OnPolicyRunner(Boxes(), config, log_dir=args.log_dir or folder, device="cpu")
    runner.alg.update = partial(timed, "learning", runner.alg.update)
    if args.checkpoint:
        runner.load(args.checkpoint)
    runner.learn(1_000_000 - runner.current_learning_iteration)
args.file.write_text("\n".join(periods))
