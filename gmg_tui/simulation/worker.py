"""Prints the output of Genesis 1.4.5, phase by phase, for a Franka on a simulated GPU of 16 GB.

Rates and memory were measured on an RTX 4090 Laptop: a step takes 0.60 ms up to about 2,000 environments, then 0.476 ms
plus 0.0595 us for each environment, and 5 % more from 17,500 on; it needs 458 MiB plus 0.788 MiB for each environment.

`gmg-tui demo --simulate 8` runs it as a program; it needs the standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

MINT, RESET = "\x1b[38;5;121m", "\x1b[0m"
COLOURS = {"INFO": "\x1b[38;5;159m", "WARNING": "\x1b[38;5;226m", "ERROR": "\x1b[38;5;9m"}
"""The ANSI codes of Genesis' dark theme (`genesis/styles.py`)."""
CARD_MIB = 16376.0
DECAY = 0.95
"""The weight of the previous average in the next one (1.4.5: `FPS_tracker_alpha`)."""
MIN_LINE_INTERVAL_S = 0.05
"""Minimum seconds between two lines of Genesis."""
SLOW_CARD, SLOWDOWN = 2, 1.09
"""The index of the GPU that throttles, and the factor by which its steps take longer."""


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-B", "--n_envs", type=int, default=4096, help="environments (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400_000, help="simulation steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the noise in a step's time")
    parser.add_argument(
        "--race", type=int, default=None, metavar="GPU", help="GPU whose first attempt hits a cache race"
    )
    parser.add_argument("--oom", type=int, default=None, metavar="GPU", help="GPU that runs out of memory")
    return parser.parse_args()


def log(text: str, level: str = "INFO") -> None:
    """Prints a line of Genesis' logger; `~<...>~` marks highlighted text."""
    colour = COLOURS[level]
    message = text.replace("~<", MINT).replace(">~", RESET + colour)
    print(f"{colour}[Genesis] [{time.strftime('%H:%M:%S')}] [{level}] {message}{RESET}", flush=True)


class Card:
    """The GPU of this process, which reports its load to the simulated driver."""

    def __init__(self) -> None:
        cards = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        self.index = int(cards[int(os.environ.get("LOCAL_RANK", "0")) % len(cards)] or 0)
        self._folder = os.environ.get("SIMULATED_GPUS")

    def report_use(self, mib: float, util_pct: float) -> None:
        """Reports the memory and GPU time that this process uses from now on."""
        if self._folder is None:
            return
        folder = Path(self._folder)
        folder.mkdir(exist_ok=True)
        temporary = folder / f".{os.getpid()}"
        temporary.write_text(json.dumps({"index": self.index, "mib": mib, "util_pct": util_pct}))
        temporary.replace(folder / str(os.getpid()))


def step_s(n_envs: int) -> float:
    """Returns the seconds of one step of all environments."""
    seconds = max(0.60e-3, 0.4755e-3 + 5.946e-8 * n_envs)
    return seconds * (1.05 if n_envs >= 17_500 else 1.0)


def memory_mib(n_envs: int) -> float:
    """Returns the GPU memory that the environments need."""
    return 458.0 + 0.788 * n_envs


def build(options: argparse.Namespace, card: Card) -> None:
    """Prints the phases up to the first step. Exits if the run fails."""
    uid = f"{os.getpid():07x}"[-7:]
    time.sleep(0.6)
    bar = "─" * 47
    log(f"~<╭{bar}╮>~")
    log(f"~<│{'┈┉' * 9}┈>~ \x1b[1m\x1b[3m~<Genesis>~ ~<{'┈┉' * 9}┈│>~")
    log(f"~<╰{bar}╯>~")
    log("Running on ~<[Simulated 16GB]>~ with backend ~<gs.cuda>~. Device memory: ~<15.99>~ GB.")
    log(
        "🚀 Genesis initialized. 🔖 version: ~<1.4.5>~, 🎨 theme: ~<dark>~, 🌱 seed: ~<None>~, 🐛 debug: ~<False>~, "
        "📏 precision: ~<32>~, 🔥 performance: ~<False>~, 💬 verbose: ~<INFO>~"
    )
    card.report_use(410.0, 2.0)
    time.sleep(0.3)
    log(f"Scene ~<\x1b[3m<{uid}>>~ created.")
    time.sleep(0.3)
    log("(MJCF) Approximating tendon by joint actuator for `finger_joint1`", "WARNING")
    log(
        f"Adding ~<<gs.engine.entities.RigidEntity>>~ ~<panda_{uid}>~. idx: ~<0>~, morph: ~<<gs.morphs.MJCF>>~, "
        "material: ~<<gs.materials.Rigid>>~."
    )
    log(f"Building scene ~<\x1b[3m<{uid}>>~...")
    time.sleep(0.5)
    log("Preprocessing SDF of mesh ~</home/user/.cache/genesis/gsd/8cbc02a5495422b0.gsd>~.")
    if options.race == card.index and os.environ.get("GMG_ATTEMPT", "1") == "1":
        fail("_pickle.UnpicklingError: pickle data was truncated", "mesh = pickle.load(file)")
    time.sleep(0.5)
    needed = memory_mib(options.n_envs)
    if needed > CARD_MIB or options.oom == card.index:
        wanted = max(needed - 900.0, 256.0) / 1024
        card.report_use(CARD_MIB - 300.0, 4.0)
        time.sleep(1.0)
        fail(
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} GiB. "
            "GPU 0 has a total capacity of 15.99 GiB of which 0.29 GiB is free.",
            "self._data = torch.empty(shape, device=gs.device)",
        )
    card.report_use(needed, 8.0)
    log("Compiling simulation kernels...")
    time.sleep(1.0)
    log("Building visualizer...")
    time.sleep(0.2)


def fail(error: str, line: str) -> None:
    """Prints an exception and exits as Genesis does, whose hook prints to standard output."""
    print("Traceback (most recent call last):")
    print(f'  File "franka.py", line 24, in <module>\n    scene.build(n_envs=args.n_envs)\n    {line}')
    print(error, flush=True)
    log(error.partition(": ")[2] or error, "ERROR")
    log("💤 Exiting Genesis and caching compiled kernels...")
    sys.exit(1)


def simulate(options: argparse.Namespace, card: Card) -> int:
    """Steps until the end. Returns the number of environment steps."""
    step_time_s = step_s(options.n_envs) * (SLOWDOWN if card.index == SLOW_CARD else 1.0)
    card.report_use(memory_mib(options.n_envs), min(99.0, 62.0 + 37.0 * step_time_s / 1.4e-3))
    rng = random.Random(options.seed if options.seed is not None else card.index)  # noqa: S311 - noise
    average: float | None = None
    n_envs: int = options.n_envs
    last_at, done, due_steps = time.monotonic(), 0, 0.0
    while done < options.steps:
        time.sleep(MIN_LINE_INTERVAL_S)
        now = time.monotonic()
        due_steps += (now - last_at) / (step_time_s * rng.gauss(1.0, 0.01))
        steps = min(int(due_steps), options.steps - done)
        due_steps -= steps
        done += steps
        rate = steps * options.n_envs / (now - last_at)
        last_at = now
        # Genesis' average begins far below the rate, as the first steps are slow.
        average = 0.01 * rate if average is None else DECAY * average + (1 - DECAY) * rate
        per_env = average / options.n_envs
        log(f"Running at ~<{average:,.2f}>~ FPS (~<{per_env:,.2f}>~ FPS per env, ~<{options.n_envs}>~ envs).")
    return done * n_envs


def main() -> None:
    """Runs the script."""
    options = parse_arguments()
    if options.n_envs < 1 or options.steps < 1:
        sys.exit("worker.py: --n_envs and --steps must be at least 1")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a stop needs no traceback
    card = Card()
    build(options, card)
    steps = simulate(options, card)
    print(f'gmg:result {{"env_steps": {steps}}}', flush=True)
    log("💤 Exiting Genesis and caching compiled kernels...")


if __name__ == "__main__":
    main()
