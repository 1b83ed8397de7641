"""Trains with Stable-Baselines3 on Gymnasium, and counts its own environment steps: `sb3_training.py FILE --num-envs N`."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--total-timesteps", type=int, default=8192)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--log-dir")
args = parser.parse_args()
times: list[float] = []

env = make_vec_env("CartPole-v1", n_envs=args.num_envs)
step = env.step


def timed_step(actions: Any) -> Any:
    result = step(actions)
    times.append(time.monotonic())
    return result


env.step = timed_step  # type: ignore[method-assign]
agent = PPO("MlpPolicy", env, learning_rate=args.lr, n_steps=128, verbose=1, device="cpu", tensorboard_log=args.log_dir)
agent.learn(args.total_timesteps)
steps, seconds = args.num_envs * (len(times) - 1), times[-1] - times[0]
args.file.write_text(json.dumps({"steps": steps, "rate": steps / seconds}))
