"""Trains with skrl on Gymnasium, and counts its own environment steps: `skrl_training.py FILE --num-envs N`."""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch.sequential import SequentialTrainer

parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--timesteps", type=int, default=512)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--log-dir")
args = parser.parse_args()
times: list[float] = []


class Policy(CategoricalMixin, Model):  # type: ignore[misc]
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ELU(), torch.nn.Linear(16, 2))

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):  # type: ignore[misc]
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ELU(), torch.nn.Linear(16, 1))

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"]), {}


class Reporting(PPO):  # type: ignore[misc]
    """Prints the metrics that skrl writes to TensorBoard only."""

    def write_tracking_data(self, *, timestep: int, timesteps: int) -> None:
        data = self.tracking_data
        if data.get("Reward / Total reward (mean)"):
            reward, length = data["Reward / Total reward (mean)"][-1], data["Episode / Total timesteps (mean)"][-1]
            print(f"\nMean reward: {reward:.2f}\nMean episode length: {length:.1f}", flush=True)
        super().write_tracking_data(timestep=timestep, timesteps=timesteps)


vector = gymnasium.make_vec("CartPole-v1", num_envs=args.num_envs, vectorization_mode="sync")
step = vector.step


def timed_step(actions: Any) -> Any:
    result = step(actions)
    times.append(time.monotonic())
    return result


vector.step = timed_step  # type: ignore[method-assign]
env = wrap_env(vector)
spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": "cpu"}
models = {"policy": Policy(**spaces), "value": Value(**spaces)}
config = PPO_CFG(rollouts=64, learning_epochs=2, mini_batches=2, learning_rate=args.lr)
config.experiment.write_interval, config.experiment.checkpoint_interval = 128, 0
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    config.experiment.directory = args.log_dir or folder
    memory = RandomMemory(memory_size=64, num_envs=args.num_envs, device="cpu")
    agent = Reporting(models=models, memory=memory, cfg=config, **spaces)
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": args.timesteps, "headless": True}).train()
    agent.writer.close()  # its thread would write into the folder that is gone
steps, seconds = args.num_envs * (len(times) - 1), times[-1] - times[0]
args.file.write_text(json.dumps({"steps": steps, "rate": steps / seconds}))
