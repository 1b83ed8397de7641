"""Trains with rsl_rl on Gymnasium, and counts its own environment steps: `rsl_training.py FILE --num-envs N`."""

import argparse
import json
import tempfile
import time
from pathlib import Path

import gymnasium
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--max_iterations", type=int, default=20)
parser.add_argument("--log-dir")
args = parser.parse_args()
times: list[float] = []


class Poles(VecEnv):  # type: ignore[misc]
    """CartPole, pushed to the side that the sign of the action names."""

    def __init__(self) -> None:
        self.inner = gymnasium.make_vec("CartPole-v1", num_envs=args.num_envs, vectorization_mode="sync")
        self.num_envs, self.num_actions, self.max_episode_length = args.num_envs, 1, 500
        self.episode_length_buf = torch.zeros(args.num_envs, dtype=torch.long)
        self.device = "cpu"
        self.cfg: dict[str, object] = {}
        self.seen = torch.tensor(self.inner.reset(seed=1)[0])

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": self.seen.clone()}, batch_size=[args.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        seen, reward, ended, cut, _ = self.inner.step((actions[:, 0] > 0).long().numpy())
        times.append(time.monotonic())
        self.seen, over = torch.tensor(seen), torch.tensor(cut)
        done = torch.tensor(ended) | over
        self.episode_length_buf = torch.where(done, 0, self.episode_length_buf + 1)
        return self.get_observations(), torch.tensor(reward).float(), done.long(), {"time_outs": over}


model = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
config = {
    "num_steps_per_env": 64,
    "save_interval": 1000,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
    "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
    "critic": model,
}
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # without one it prints nothing
    runner = OnPolicyRunner(Poles(), config, log_dir=args.log_dir or folder, device="cpu")
    runner.learn(args.max_iterations)
    runner.logger.writer.close()  # rsl_rl 5.5 leaves that to a daemon thread, which may lose the last event
steps, seconds = args.num_envs * (len(times) - 1), times[-1] - times[0]
args.file.write_text(json.dumps({"steps": steps, "rate": steps / seconds}))
