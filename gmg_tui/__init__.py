"""A terminal monitor and launcher for the Genesis physics engine on many GPUs."""

__version__ = "0.1.0"
