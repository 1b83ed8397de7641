"""Whether programs share the machine's GPUs through MPS, NVIDIA's multi-process service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - the default of nvidia-cuda-mps-control


def pipes(environ: Mapping[str, str]) -> str | None:
    """The folder with the pipes of MPS' daemon; None where it does not run, or is another user's."""
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or _PIPES)
    try:
        return str(folder) if (folder / "control").exists() else None
    except OSError:
        return None
