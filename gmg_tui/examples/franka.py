"""A Franka arm swaying above a plane in many environments at once: Genesis's own benchmark scene.

    gmg-tui franka.py -B 4096

The first run on a machine takes minutes to prepare meshes and compile kernels; later ones use the caches.
"""

import argparse
import os

import genesis as gs
import torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("-B", "--n_envs", type=int, default=16, help="environments (default: %(default)s)")
parser.add_argument("--steps", type=int, default=1000, help="simulation steps (default: %(default)s)")
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
franka = scene.add_entity(gs.morphs.MJCF(file="xml/franka_emika_panda/panda.xml"))
scene.build(n_envs=args.n_envs)

# Seven joints of the arm, then the two fingers; radians and metres.
home = torch.tensor([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8, 0.04, 0.04], device=gs.device)
sway = torch.tensor([0.4, 0.2, 0.4, 0.2, 0.4, 0.2, 0.4, 0.0, 0.0], device=gs.device)
for step in range(args.steps):
    target = home + sway * torch.sin(torch.tensor(0.02 * step, device=gs.device))
    franka.control_dofs_position(target.expand(args.n_envs, -1))
    scene.step()

print(f"{args.n_envs * args.steps:,} environment steps done")
