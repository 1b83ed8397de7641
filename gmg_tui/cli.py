"""The command line: reads the arguments and hands over to the one module that does what they ask for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import gmg_tui
from gmg_tui.errors import GmgError

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
_RUN = {**_HELP, "allow_interspersed_args": False}
_DEMO = {**_RUN, "ignore_unknown_options": True}
_INTERRUPTED = 130
_AFTER = "gmg_tui.after"


class _Page(click.Group):
    """The group whose help shows the commands and the options of `run` on one page."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they were declared."""
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two ways to call it."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT [ARGS]...")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options of `run`, then this group's own."""
        self.format_commands(ctx, formatter)
        for title, command in (("Options of run and demo", self.commands["run"]), ("Other options", self)):
            options = [option for option in command.params if isinstance(option, click.Option)]
            if command is self and (help_option := self.get_help_option(ctx)):
                options.append(help_option)
            with formatter.section(title):
                formatter.write_dl([row for option in options if (row := option.get_help_record(ctx))])


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator that does what all of `options` do, in their order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_screen = _options(
    click.option("--theme", metavar="NAME", help="Colours of the screen: dark, light, ansi or contrast."),
    click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII signs only."),
    click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal."),
)
_supervision = _options(
    click.option(
        "--start",
        type=click.Choice(["gated", "together", "staggered"]),
        metavar="WAY",
        help="gated (the others wait until the first has written its mesh caches), together, or staggered (3 s apart).  "
        "[default: gated while the script's caches are cold, else together]",
    ),
    click.option(
        "--restart",
        type=click.Choice(["never", "startup", "failure", "always"]),
        default="startup",
        show_default=True,
        metavar="WHEN",
        help="never, startup (after failures that a retry heals, before the first progress), failure, or always.",
    ),
    click.option(
        "--max-restarts",
        type=int,
        default=3,
        show_default=True,
        metavar="N",
        help="How often in a row a worker is started again.",
    ),
    click.option(
        "--stuck-after",
        type=float,
        default=60.0,
        show_default=True,
        metavar="S",
        help="Seconds without output and CPU time before a worker is called stuck.",
    ),
    click.option("--restart-stuck", is_flag=True, help="Restart stuck workers without being asked."),
    click.option(
        "--sigint-wait",
        type=float,
        default=15.0,
        show_default=True,
        metavar="S",
        help="Seconds from SIGINT to SIGTERM when a worker is stopped: Genesis saves its kernels meanwhile.",
    ),
    click.option(
        "--sigterm-wait",
        type=float,
        default=10.0,
        show_default=True,
        metavar="S",
        help="Seconds from SIGTERM to SIGKILL.",
    ),
)
_shared = _options(
    click.option(
        "--gpus", metavar="WHAT", help="'all', a count, or a list of indices or UUIDs: 0,2,5.  [default: all allowed]"
    ),
    click.option("--cpu", type=int, metavar="N", help="N CPU slots instead of GPUs; the cores are shared out."),
    click.option("--name", metavar="NAME", help="The session's name.  [default: the script's and a number]"),
    click.option(
        "--python",
        metavar="PATH",
        help="The workers' interpreter.  [default: the active environment's, else gmg-tui's own]",
    ),
    click.option("--env", multiple=True, metavar="KEY=VALUE", help="A variable for the workers; repeatable."),
    click.option(
        "--interval", type=float, default=1.0, show_default=True, metavar="S", help="Seconds between looks at the GPUs."
    ),
    _supervision,
    click.option("--headless", is_flag=True, help="Print lines instead of drawing; also where there is no terminal."),
    click.option("--detach", is_flag=True, help="Start, print the session's name, and return."),
    click.option("--summary", metavar="FILE", help="Write the summary (JSON) there too."),
    _screen,
)
_jobs = _options(
    click.option("--script", metavar="SCRIPT", help="What the jobs run, instead of the file's; without FILE needed."),
    click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `python -m`."),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=V1,V2",
        help="The values of a key of the grid; repeatable. One value holds for single experiments too.",
    ),
    click.option("--args", metavar="WORDS", help="The script's arguments, as for a shell; or write them after --."),
    click.option("--per-gpu", type=int, metavar="N", help="Jobs on one card at once.  [default: 1]"),
    click.option("--retries", type=int, metavar="N", help="How often a failed job is run again.  [default: 0]"),
    click.option(
        "--timeout", metavar="T", help="How long an attempt may take: 30m, 1h30m, 45s, none.  [default: none]"
    ),
    click.option(
        "--min-free-mib", type=float, metavar="M", help="VRAM that must be free before a job starts on a card."
    ),
    click.option("--out-dir", metavar="TEMPLATE", help="Each job's own folder, with placeholders: runs/{name}."),
    click.option("--results", metavar="DIR", help="Write the results there too."),
    click.option("--best", metavar="COLUMN", help="What the final table is ordered by; -COLUMN: the smallest first."),
    click.option("--preset", "presets", multiple=True, metavar="NAME", help="A preset of the file; repeatable."),
    click.option("--all", "all_presets", is_flag=True, help="All presets of the file, one after another."),
    click.option("--dry-run", is_flag=True, help="List the jobs; run none."),
    click.option("--resume", metavar="NAME", help="Go on with a sweep that has ended or was lost; without FILE."),
    click.option("--retry-failed", is_flag=True, help="With --resume: run failed jobs again too."),
)


@click.group(cls=_Page, context_settings=_HELP, no_args_is_help=False)
@click.version_option(gmg_tui.__version__, prog_name="gmg-tui", message="%(prog)s %(version)s")
def _group() -> None:
    """Run a Genesis script on every GPU of this machine, watch it and steer it.

    All that follows SCRIPT is the script's own. In ARGS and --env, {slot}, {gpu}, {i}, {n} and {seed} are filled in
    for each worker; {{ is a brace.
    """


@_group.command(context_settings=_RUN)
@_shared
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `python -m`.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(script: str, args: tuple[str, ...], module: bool, **options: Any) -> int:
    """Run SCRIPT, also one that is named like a command."""
    from gmg_tui.commands.ahead import Ahead

    with Ahead() as engine:
        from gmg_tui.commands import run as command
        from gmg_tui.commands.options import RunOptions

        return command.run(RunOptions(**options), engine, script, args, module=module)


@_group.command(context_settings=_DEMO)
@_shared
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def demo(args: tuple[str, ...], **options: Any) -> int:
    """Run the shipped Genesis example; on two CPU slots without a GPU."""
    from gmg_tui.commands.ahead import Ahead

    with Ahead() as engine:
        from gmg_tui.commands import run as command
        from gmg_tui.commands.options import RunOptions

        return command.demo(RunOptions(**options), engine, args)


class _Sweep(click.Command):
    """The command that keeps the words after `--` apart from its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words after the first `--` away; they are `ctx.meta[_AFTER]`, which is not there without one."""
        if "--" in args:
            position = args.index("--")
            ctx.meta[_AFTER] = tuple(args[position + 1 :])
            args = args[:position]
        return super().parse_args(ctx, args)


@_group.command(cls=_Sweep, context_settings=_HELP, options_metavar="[OPTIONS]")
@_jobs
@_shared
@click.argument("file", required=False)
@click.pass_context
def sweep(ctx: click.Context, /, file: str | None, **options: Any) -> int:
    """Queue the jobs of FILE (TOML) over the slots.

    In its args, env and out_dir, and in WORDS after --, {slot}, {gpu}, {i}, {n}, {seed}, {job}, {name}, {out_dir} and
    the values of the file are filled in for each job; {{ is a brace. Options win over the file.
    """
    from gmg_tui.commands import resume as resuming
    from gmg_tui.commands import sweep as command
    from gmg_tui.commands.options import RunOptions
    from gmg_tui.sweep.overlay import SweepOptions

    run_options = RunOptions(**{name: options.pop(name) for name in RunOptions._fields})
    own = SweepOptions(**options, words=ctx.meta.get(_AFTER))
    if own.resume is None:
        return command.sweep(file, run_options, own)
    given = frozenset(name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    return resuming.resume(file, run_options, own, given)


@_group.command(context_settings=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def gpus(as_json: bool) -> int:
    """Print the GPUs, one line each, once."""
    from gmg_tui.commands import gpus as command

    return command.gpus(as_json=as_json)


@_group.command(context_settings=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ls(as_json: bool) -> int:
    """Print your sessions on this machine."""
    from gmg_tui.commands import ls as command

    return command.ls(as_json=as_json)


@_group.command(context_settings=_HELP)
@click.argument("name", required=False)
@_screen
def attach(name: str | None, theme: str | None, ascii_only: bool, no_mouse: bool) -> int:
    """Open the screen on a running session, by default the newest."""
    from gmg_tui.commands import attach as command

    return command.attach(name, theme=theme, ascii_only=ascii_only, mouse=not no_mouse)


@_group.command(context_settings=_HELP)
@click.argument("name", required=False)
def stop(name: str | None) -> int:
    """Stop the workers of a running session, by default the newest."""
    from gmg_tui.commands import stop as command

    return command.stop(name)


@_group.command(context_settings=_HELP, options_metavar="[-f] [-n N]")
@click.argument("words", nargs=-1, metavar="[NAME] SLOT|JOB")
@click.option("-f", "--follow", is_flag=True, help="Go on until the session, or the job, has ended.")
@click.option("-n", "--lines", type=int, metavar="N", help="Begin with the last N lines.")
def logs(words: tuple[str, ...], follow: bool, lines: int | None) -> int:
    """Print a worker's log, by default the newest session's."""
    from gmg_tui.commands import logs as command

    return command.logs(words, follow=follow, lines=lines)


@_group.command(context_settings=_HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the detailed results (JSON).")
@click.option("--csv", "as_csv", is_flag=True, help="Print the summary of the results (CSV).")
@click.option("--html", metavar="FILE", help="Write a page with the timeline, charts and all jobs.")
@click.option("--best", metavar="COLUMN", help="What the table is ordered by; -COLUMN: the smallest first.")
def report(name: str | None, as_json: bool, as_csv: bool, html: str | None, best: str | None) -> int:
    """Print what a session did, by default the newest."""
    from gmg_tui.commands import report as command

    return command.report(name, as_json=as_json, as_csv=as_csv, html=html, best=best)


@_group.command(context_settings=_HELP)
@click.option("--python", metavar="PATH", help="The workers' interpreter, as for `run`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(python: str | None, as_json: bool) -> int:
    """Print what this machine has and lacks for a run."""
    from gmg_tui.commands import doctor as command

    return command.doctor(python, as_json=as_json)


def arrange(words: Sequence[str]) -> list[str]:
    """The command's name first, then all other words in their order.

    The first word that is neither an option nor an option's value is a command, or the script that `run` is to run.
    """
    takes_value = {name for command in _group.commands.values() for name in _names_with_value(command)}
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] not in {"-", "--"}:
        if words[position] in {"-h", "--help", "--version"} and not _is_command(words[position + 1 :]):
            return [words[position]]
        position += 2 if words[position] in takes_value else 1
    before, rest = words[:position], words[position:]
    return [rest[0], *before, *rest[1:]] if _is_command(rest) else ["run", *before, *rest]


def _is_command(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in _group.commands


def _names_with_value(command: click.Command) -> list[str]:
    return [
        name
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag
        for name in option.opts
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Do what the command line asks for, and exit with its status.

    Args:
        words: The words after the program's name; None for this process's.
    """
    words = sys.argv[1:] if words is None else words
    _prepare_output()
    try:
        # Without a word there is nothing to run: the page that says what there is, and the status of wrong usage.
        status = _group.main(arrange(words) if words else ["--help"], prog_name="gmg-tui", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        status = _complain(error.format_message(), error.exit_code)
    except GmgError as error:
        status = _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        status = _INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough. Python flushes once more as it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status if words else 2)


def _prepare_output() -> None:
    """See that printing never fails for what is printed: a stream that is closed, a sign that the encoding lacks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the program lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _complain(text: str, status: int) -> int:
    print(f"gmg-tui: {text}", file=sys.stderr)
    return status
