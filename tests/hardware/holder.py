"""Holds memory on the visible GPU and keeps it busy until it is ended: `python holder.py MIB`.

Prints `held UUID` once the memory is allocated; `PID` and UUID are those of the process and of the GPU that torch uses.
"""

import os
import sys

import torch

mib = int(sys.argv[1])
held = torch.zeros(mib << 20, dtype=torch.uint8, device="cuda")
factor = torch.rand(4096, 4096, device="cuda")
torch.cuda.synchronize()
print(f"held {os.getpid()} GPU-{torch.cuda.get_device_properties(0).uuid}", flush=True)
while True:
    factor = torch.tanh(factor @ factor / 64)  # both kernels occupy every SM
    torch.cuda.synchronize()
