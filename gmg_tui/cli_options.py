"""The options that several commands take, and those of `sweep`, with their help."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import click

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
"""Settings of every command."""
ALL = "all"
"""What `--ddp` is without a number."""


def call(command: str, *args: Any, **options: Any) -> int:
    """Call the function of a command, whose module is imported only now."""
    module = importlib.import_module(f"gmg_tui.commands.{command}")
    status: int = getattr(module, command.partition(".")[0])(*args, **options)
    return status


def completes(kind: str) -> Callable[..., Any]:
    """What completes a parameter in a shell: `commands.completion.complete`, imported only where it is asked."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        module = importlib.import_module("gmg_tui.commands.completion")
        return module.complete(kind, ctx, incomplete)

    return complete


RUNNING, SESSIONS = completes("running"), completes("sessions")


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator for all of `options`, in their order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _number(name: str, kind: type, default: float, metavar: str, text: str) -> Callable[[Any], Any]:
    """An option that takes a number and shows its default."""
    return click.option(name, type=kind, default=default, show_default=True, metavar=metavar, help=text)


def _choice(name: str, values: Sequence[str], metavar: str, text: str, **more: Any) -> Callable[[Any], Any]:
    """An option that takes one of `values`."""
    return click.option(name, type=click.Choice(values), metavar=metavar, help=text, **more)


SCREEN = _together(
    click.option("--theme", metavar="NAME", help="Colour theme: dark, light, ansi or contrast."),
    click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only."),
    click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal."),
    click.option("--no-confirm", is_flag=True, help="Restart and stop without asking, however long a worker has run."),
)


def screen_of(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `SCREEN` among those of a command, said as the screen takes them; others stay."""
    negated = {"mouse": not options.pop("no_mouse"), "confirm": not options.pop("no_confirm")}
    return options | negated


_SUPERVISION = _together(
    _choice(
        "--start",
        ("gated", "together", "staggered"),
        "MODE",
        "gated (the others wait until the first has written its mesh caches), together, or staggered (3 s apart).  "
        "[default: gated while the script's caches are cold, else together]",
    ),
    _choice(
        "--restart",
        ("never", "startup", "failure", "always"),
        "POLICY",
        "never, startup (after failures before the first progress that a retry may fix), failure, or always.",
        default="startup",
        show_default=True,
    ),
    _number("--max-restarts", int, 3, "N", "How often in a row a worker is restarted."),
    _number("--stuck-after", float, 60.0, "S", "Seconds without output and CPU time before a worker is called stuck."),
    click.option("--restart-stuck", is_flag=True, help="Restart stuck workers automatically."),
    _number(
        "--sigint-wait",
        float,
        15.0,
        "S",
        "Seconds from SIGINT to SIGTERM when a worker is stopped; Genesis saves its kernels meanwhile.",
    ),
    _number("--sigterm-wait", float, 10.0, "S", "Seconds from SIGTERM to SIGKILL."),
)
_RANKS = _together(
    click.option(
        "--virtual-local-rank",
        is_flag=True,
        help="With --ddp: each rank sees its own GPU alone, and is local rank 0.",
    ),
    click.option(
        "--flight-recorder",
        is_flag=True,
        help="With --ddp: record the collectives, and keep torch's dumps in the session's folder.",
    ),
)
GROUPS = _together(
    click.option(
        "--ddp",
        metavar="[N]",
        help="Run groups of N ranks, as torchrun starts them; without N one group over all slots.",
    ),
    _RANKS,
)
SIMULATE = click.option(
    "--simulate",
    type=int,
    metavar="N",
    help="With demo, tune and sweep: simulate N GPUs and the script on them: no GPU and no Genesis is needed.",
)
SHARED = _together(
    click.option(
        "--gpus", metavar="WHAT", help="'all', a count, or a list of indices or UUIDs: 0,2,5.  [default: all allowed]"
    ),
    click.option("--cpu", type=int, metavar="N", help="Use N CPU slots, which share the cores, instead of GPUs."),
    click.option("--name", metavar="NAME", help="The session's name.  [default: the script's and a number]"),
    click.option(
        "--python",
        metavar="PATH",
        help="The workers' interpreter.  [default: the active environment's, else gmg-tui's own]",
    ),
    click.option(
        "--env", multiple=True, metavar="KEY=VALUE", help="An environment variable for the workers; repeatable."
    ),
    click.option(
        "--nodes",
        metavar="WHERE",
        help="Use all slots of several machines: slurm (the job's nodes), ray, ssh:HOST,HOST or ssh:@FILE, local:N.",
    ),
    click.option(
        "--min-nodes", type=int, metavar="N", help="With --nodes: begin when N of them answer.  [default: all]"
    ),
    click.option(
        "--slurm",
        metavar="OPTIONS",
        help="With --nodes slurm: ask for a job with these options of salloc; it ends with the session.",
    ),
    _number(
        "--orphan-wait", float, 60.0, "S", "With --nodes: seconds until workers end whose session's engine is gone."
    ),
    click.option(
        "--keep-slurm-env",
        is_flag=True,
        help="Hand on the variables of the Slurm step or MPI task that gmg-tui runs in (SLURM_PROCID, OMPI_* …).",
    ),
    _choice(
        "--visible",
        ("index", "uuid"),
        "HOW",
        "How CUDA_VISIBLE_DEVICES names a worker's GPU: by index, or by uuid, which holds whatever happens to others.",
        default="index",
        show_default=True,
    ),
    click.option(
        "--pattern",
        multiple=True,
        metavar="REGEX",
        help="Read the script's progress lines by the groups fps, n_envs, done, total and metric_NAME; repeatable.",
    ),
    _number("--interval", float, 1.0, "S", "Seconds between two samples of the GPUs."),
    _SUPERVISION,
    click.option(
        "--log-max",
        metavar="SIZE",
        help="Cut out the middle of a worker's log beyond this size: 500M, 2G.  [default: none]",
    ),
    click.option("--headless", is_flag=True, help="Print lines, no screen; the default where there is no terminal."),
    click.option("--verbose", is_flag=True, help="Without a screen: print the lines that only say progress, too."),
    click.option("--detach", is_flag=True, help="Start, print the session's name, and return."),
    click.option("--summary", metavar="FILE", help="Also write the summary (JSON) to FILE."),
    click.option(
        "--notify",
        multiple=True,
        metavar="HOW",
        help="When a worker or job fails, a worker is stuck, or all has ended: bell, osc9, osc777 (notifications of the "
        "terminal), or a command, which gets GMG_EVENT and GMG_TEXT; repeatable.",
    ),
    SCREEN,
)
JOBS = _together(
    click.option("--script", metavar="SCRIPT", help="What the jobs run, instead of the file's; required without FILE."),
    click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `python -m`."),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=V1,V2",
        help="The values of a key of the grid; repeatable. A single value also applies to single experiments.",
    ),
    click.option(
        "--args", metavar="WORDS", help="The script's arguments, quoted as for a shell; or write them after --."
    ),
    click.option("--per-gpu", type=int, metavar="N", help="Jobs on one GPU at once.  [default: 1]"),
    click.option(
        "--ddp",
        metavar="N",
        help="Run each job as a group of N ranks, as torchrun starts them; '{KEY}' takes N from a value of the job.",
    ),
    _RANKS,
    click.option("--retries", type=int, metavar="N", help="How often a failed job is run again.  [default: 0]"),
    click.option("--repeat", type=int, metavar="N", help="How often each job is run.  [default: 1]"),
    click.option("--every-gpu", is_flag=True, help="Run each job on every GPU of its batch."),
    click.option("--timeout", metavar="T", help="Time limit of an attempt: 30m, 1h30m, 45s, none.  [default: none]"),
    click.option(
        "--min-free-mib", type=float, metavar="M", help="VRAM that must be free before a job starts on a GPU."
    ),
    click.option("--out-dir", metavar="TEMPLATE", help="Each job's own folder, with placeholders: runs/{name}."),
    click.option("--results", metavar="DIR", help="Also write the results to DIR."),
    click.option("--best", metavar="COLUMN", help="The column to order the final table by; -COLUMN: smallest first."),
    click.option(
        "--preset",
        "presets",
        multiple=True,
        metavar="NAME",
        shell_complete=completes("presets"),
        help="A preset of the file; repeatable.",
    ),
    click.option("--all", "all_presets", is_flag=True, help="All presets of the file, one after another."),
    click.option("--dry-run", is_flag=True, help="List the jobs without running them."),
    click.option("--resume", metavar="NAME", help="Continue a sweep that has ended or was lost; without FILE."),
    click.option("--retry-failed", is_flag=True, help="With --resume: run failed jobs again too."),
)
TUNING = _together(
    click.option(
        "--var",
        default="n_envs=64..",
        show_default=True,
        metavar="NAME=LOW..HIGH",
        help="The number to look for, {NAME} in the script's arguments, and between what; HIGH may be left out.",
    ),
    click.option(
        "--metric",
        default="fps",
        show_default=True,
        metavar="KEY",
        help="What is best: fps (the settled rate), or a key of the script's gmg:result.",
    ),
    _choice(
        "--goal", ("max", "min"), "GOAL", "Whether more of it is better, or less.", default="max", show_default=True
    ),
    _number("--headroom", float, 10.0, "PCT", "VRAM that stays free."),
    _number("--knee", float, 5.0, "PCT", "The second answer: the smallest value within this of the fastest."),
    _number("--settle", float, 30.0, "S", "How long a trial is measured at most."),
    click.option(
        "--trial-time",
        default="15m",
        show_default=True,
        metavar="T",
        help="How long a trial may take with its start.",
    ),
    _number("--trials", int, 24, "N", "How many trials at most."),
    click.option("--budget", metavar="T", help="How long the search may take: 30m, 1h30m.  [default: none]"),
    click.option("--same", is_flag=True, help="Take GPUs of different models for one."),
    click.option("--resume", metavar="NAME", help="Go on with a tuning that was stopped or lost; without SCRIPT."),
)
ON_NODES = click.option(
    "--nodes",
    metavar="WHERE",
    help="Ask several machines: slurm (the job's nodes), ssh:HOST,HOST or ssh:@FILE, local:N.",
)
YES = click.option("-y", "--yes", is_flag=True, help="Remove without asking; needed where there is no terminal.")
