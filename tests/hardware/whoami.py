"""Prints what this worker sees of the GPUs: `UUID of the first visible one, how many`, as torch reports them."""

import torch

print(f"GPU-{torch.cuda.get_device_properties(0).uuid} {torch.cuda.device_count()}", flush=True)
