"""A small policy that learns to fly boxes to the origin, trained on all GPUs at once with DistributedDataParallel.

    gmg-tui --ddp train_boxes.py -B 4096
    torchrun --standalone --nproc_per_node=2 train_boxes.py -B 4096

Each rank simulates its own environments with its own seed; the gradients are averaged over the ranks, by NCCL on GPUs and
by gloo on the CPU. It runs with and without --virtual-local-rank.
"""

import argparse
import os
import sys

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("-B", "--n_envs", type=int, default=16, help="environments of each rank (default: %(default)s)")
parser.add_argument("--iterations", type=int, default=200, help="updates of the policy (default: %(default)s)")
parser.add_argument("--steps", type=int, default=24, help="simulation steps in each iteration (default: %(default)s)")
parser.add_argument(
    "--seed", type=int, default=0, help="seed of rank 0; each rank adds its number (default: %(default)s)"
)
parser.add_argument("--backend", choices=("gpu", "cpu"), help="where to simulate (default: gpu where there is one)")
args = parser.parse_args()
if "RANK" not in os.environ:
    parser.error("this script is one rank of several: start it with gmg-tui --ddp, or with torchrun")

rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
# Genesis takes the first GPU that it sees, so each rank must see its own alone, before torch and Genesis are imported.
# With --virtual-local-rank it does already, and LOCAL_RANK is 0.
seen = os.environ.get("CUDA_VISIBLE_DEVICES")
if seen is None:
    os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)
elif seen:
    os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[local_rank]

# DistributedDataParallel imports torch._dynamo, which loads triton's LLVM. Loaded after Genesis' own LLVM it ends the
# process with a segmentation fault, so it comes first.
import torch._dynamo  # noqa: E402, I001
import genesis as gs  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

on_gpu = args.backend == "gpu" or (args.backend is None and torch.cuda.is_available())
dist.init_process_group("nccl" if on_gpu else "gloo")
gs.init(backend=gs.gpu if on_gpu else gs.cpu, seed=args.seed + rank)

# Boxes adrift, which touch nothing: without contacts there is little to compile.
scene = gs.Scene(
    sim_options=gs.options.SimOptions(gravity=(0.0, 0.0, 0.0)),
    rigid_options=gs.options.RigidOptions(enable_collision=False, disable_constraint=True),
    show_viewer=False,
)
box = scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0.5, -0.5, 0.2)))
scene.build(n_envs=args.n_envs)

net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3)).to(gs.device)
policy = DistributedDataParallel(net)  # begins with rank 0's weights everywhere
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def observe() -> torch.Tensor:
    """Each box's position and velocity, m and m/s."""
    return torch.cat((box.get_pos(), box.get_vel()), dim=1)


for iteration in range(args.iterations):
    observations, actions, rewards = [], [], []
    with torch.no_grad():
        for _ in range(args.steps):
            observation = observe()
            action = net(observation) + 0.3 * torch.randn(args.n_envs, 3, device=gs.device)
            box.set_dofs_velocity(action, dofs_idx_local=[0, 1, 2])
            scene.step()
            observations.append(observation)
            actions.append(action)
            rewards.append(-box.get_pos().norm(dim=1))
    reward = torch.stack(rewards)
    # The policy gradient of actions with a fixed spread; an action is as good as its box is nearer than the others'.
    advantage = (reward - reward.mean(dim=1, keepdim=True)).flatten()
    missed = (torch.cat(actions) - policy(torch.cat(observations))).square().sum(dim=1)
    loss = (advantage * missed).mean()
    optimizer.zero_grad()
    loss.backward()  # averages the gradients over all ranks
    optimizer.step()
    if rank == 0:
        # As rsl_rl prints it, which counts from 0; gmg-tui reads it.
        print(f"Learning iteration {iteration}/{args.iterations}\nMean reward: {reward.mean():.4f}", flush=True)

parts = [part for each in net.parameters() for part in (each.detach(), each.grad) if part is not None]
mine = torch.cat([part.flatten() for part in parts])
gathered = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(gathered, mine)
equal = all(torch.equal(mine, other) for other in gathered)
if rank == 0:
    verdict = "are equal" if equal else "DIFFER"
    print(f"parameters and gradients {verdict} on all {dist.get_world_size()} ranks ({mine.numel()} numbers each)")
dist.destroy_process_group()
sys.exit(0 if equal else 1)
