"""Rates for tests."""

from gmg_tui.model import Fps


def rate(fps: float) -> Fps:
    """A rate that is the same now, over the attempt, and as printed."""
    return Fps(fps, fps, fps, 100, fps, env_steps=fps * 60, seconds=60.0, counted="printed")
