"""A stand-in for a script whose rate depends on its number of environments: it steps, and prints as Genesis does.

A step takes `fixed + per_env · n` seconds, by sleeping: the rate that is to be found is known. `--memory-dir` gets a
file with the GPU's index and the memory of each worker, which `tests.nvml_sim.following` gives to the simulated driver.
"""

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path

ALPHA = 0.95
"""Genesis 1.4.5: `FPS_tracker_alpha`."""
LINE_S = 0.05


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("-B", "--n_envs", type=int, default=16)
    add("--fixed-us", type=float, default=4000.0, help="of a step")
    add("--per-env-us", type=float, default=4.0)
    add("--turn", type=int, default=1 << 60, help="above it a step takes twice the share of each environment")
    add("--noise", type=float, default=0.0, help="standard deviation of a step's time, as a share")
    add("--stop-after-s", type=float, default=1e9)
    add("--edge", type=int, default=1 << 60, help="the first number that does not fit")
    add("--per-env-kib", type=float, default=800.0)
    add("--memory-dir", type=Path)
    add("--ignore", action="store_true", help="simulate 16 environments, whatever was requested")
    return parser.parse_args()


def log(text: str) -> None:
    print(f"[Genesis] [{time.strftime('%H:%M:%S')}] [INFO] {text}", flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    options = arguments()
    n_envs = 16 if options.ignore else options.n_envs
    log("Running on [NVIDIA H100 80GB HBM3] with backend gs.cuda. Device memory: 79.11 GB.")
    log("🚀 Genesis initialized. 🔖 version: 1.4.5, 🌱 seed: None")
    log("Building scene <1234567>...")
    if options.memory_dir is not None:
        mib = 400 + n_envs * options.per_env_kib / 1024
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        (options.memory_dir / str(os.getpid())).write_text(f"{gpu} {mib}")
    time.sleep(0.2)
    log("Compiling simulation kernels...")
    if n_envs >= options.edge:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    log("Building visualizer...")
    per_env = options.per_env_us * (n_envs + max(0, n_envs - options.turn))
    step(options, n_envs, (options.fixed_us + per_env) / 1e6)


def step(options: argparse.Namespace, n_envs: int, step_s: float) -> None:
    """Steps, and a line after those that complete 0.05 s."""
    chance = random.Random(n_envs)
    average: float | None = None
    begun = since = due = time.monotonic()
    steps = 0
    while time.monotonic() - begun < options.stop_after_s:
        due += max(0.0, step_s * chance.gauss(1.0, options.noise))
        time.sleep(max(0.0, due - time.monotonic()))
        steps += 1
        now = time.monotonic()
        if now - since < LINE_S:
            continue
        rate = steps * n_envs / (now - since)
        average = rate if average is None else ALPHA * average + (1 - ALPHA) * rate
        log(f"Running at {average:,.2f} FPS ({average / n_envs:.2f} FPS per env, {n_envs} envs).")
        since, steps = now, 0


if __name__ == "__main__":
    main()
