"""A terminal monitor and launcher for the Genesis physics engine on many GPUs."""

__version__ = "1.0.0"


def report_fps(
    fps: float, n_envs: int | None = None, done: float | None = None, total: float | None = None, **metrics: float
) -> None:
    """Prints a line that reports a script's speed and progress to gmg-tui; for scripts without Genesis.

    Args:
        fps: Environment steps per second, over all environments.
        n_envs: Number of environments.
        done: Progress towards `total`, in the script's unit, such as iterations.
        total: Value of `done` at the end.
        metrics: Other results by name, for `tune --metric` and the tables of a sweep.
    """
    import json

    reported = {"fps": fps, "n_envs": n_envs, "done": done, "total": total, **metrics}
    numbers = {name: float(value) for name, value in reported.items() if value is not None}
    print("gmg:fps", json.dumps(numbers), flush=True)
