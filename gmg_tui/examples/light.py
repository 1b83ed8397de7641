"""The smallest Genesis script worth watching: boxes falling on a plane in many environments at once.

    gmg-tui light.py -B 4096

Genesis prints its own rate (`Running at … FPS`), which gmg-tui reads; the script needs nothing from gmg-tui.
"""

import argparse
import os

import genesis as gs

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("-B", "--n_envs", type=int, default=16, help="environments (default: %(default)s)")
parser.add_argument("--steps", type=int, default=200_000, help="simulation steps (default: %(default)s)")
parser.add_argument("--boxes", type=int, default=4, help="boxes in each environment (default: %(default)s)")
parser.add_argument("--seed", type=int, default=None, help="seed of Genesis's random numbers")
parser.add_argument(
    "--backend",
    choices=("gpu", "cpu"),
    # gmg-tui gives each worker one GPU, or none if it runs on the CPU.
    default="gpu" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu",
    help="where to simulate (default: gpu when CUDA_VISIBLE_DEVICES names one)",
)
args = parser.parse_args()

gs.init(backend=gs.gpu if args.backend == "gpu" else gs.cpu, seed=args.seed)

scene = gs.Scene(show_viewer=False)
scene.add_entity(gs.morphs.Plane())
for i in range(args.boxes):
    scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.05 * i, 0.0, 0.5 + 0.3 * i)))
scene.build(n_envs=args.n_envs)

for _ in range(args.steps):
    scene.step()

print(f"{args.n_envs * args.steps:,} environment steps done")
