"""Trains with Stable-Baselines3 on Gymnasium, and counts its own environment steps: `sb3_training.py FILE --num-envs N`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--total-timesteps", type=int, default=8192)
args = parser.parse_args()


class Counting(BaseCallback):
    """When each step of all environments was done."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def _on_step(self) -> bool:
        self.times.append(time.monotonic())
        return True


counting = Counting()
env = make_vec_env("CartPole-v1", n_envs=args.num_envs)
PPO("MlpPolicy", env, n_steps=128, verbose=1, device="cpu").learn(args.total_timesteps, callback=counting)
steps, seconds = args.num_envs * (len(counting.times) - 1), counting.times[-1] - counting.times[0]
args.file.write_text(json.dumps({"steps": steps, "rate": steps / seconds}))
