"""The command line: parses the arguments and calls the module of `gmg_tui.commands` that carries them out."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gmg_tui import cli_metrics, cli_shell
from gmg_tui.cli_config import Configured, config, configured
from gmg_tui.cli_machine import agent, collect, doctor, gpus, ls, node_logs
from gmg_tui.cli_options import ALL, GROUPS, HELP, JOBS, RUNNING, SESSIONS, SHARED, SIMULATE, TUNING, YES, call
from gmg_tui.cli_screens import attach, serve, share
from gmg_tui.errors import GmgError

_RUN = {**HELP, "allow_interspersed_args": False}
_DEMO = {**_RUN, "ignore_unknown_options": True}
_INTERRUPTED = 130
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why standard output may not be written."""
_AFTER = "gmg_tui.after"


class _Page(click.Group):
    """The group, whose help shows the commands and the options of `run` on one page."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of their declaration."""
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two ways to call it."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT [ARGS]...")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, then the options of `run`, then this group's own."""
        self.format_commands(ctx, formatter)
        run, demo = self.commands["run"].params, self.commands["demo"].params
        shared = [*run, *(param for param in demo if param.name not in {one.name for one in run})]
        for title, params in (("Options of run and demo", shared), ("Other options", self.params)):
            options = [option for option in params if isinstance(option, click.Option)]
            if params is self.params and (help_option := self.get_help_option(ctx)):
                options.append(help_option)
            with formatter.section(title):
                formatter.write_dl([row for option in options if (row := option.get_help_record(ctx))])


@click.group(cls=_Page, context_settings=HELP, no_args_is_help=False)
@cli_shell.version_options
def _group() -> None:
    """Run a Genesis script on every GPU of this machine, and monitor and control it.

    Everything after SCRIPT belongs to the script. In ARGS and --env, {slot}, {gpu}, {i}, {n} and {seed} are filled in
    for each worker; {{ is a literal brace.
    """


@_group.command(context_settings=_RUN)
@GROUPS
@SHARED
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `python -m`.")
@click.argument("script", shell_complete=cli_shell.FILES)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=cli_shell.FILES)
def run(script: str, args: tuple[str, ...], module: bool, **options: Any) -> int:
    """Run SCRIPT, even if it is named like a command."""
    return _start("run", options, script, args, module=module, own_options=_own_options(args))


def _own_options(args: tuple[str, ...]) -> tuple[str, ...]:
    """The words among a script's arguments that are also options of `run`; its short ones are too common to tell."""
    names = {name for option in run.params for name in option.opts if name.startswith("--")}
    return tuple(dict.fromkeys(name for word in args if (name := word.partition("=")[0]) in names))


@_group.command(context_settings=_DEMO)
@SIMULATE
@SHARED
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=cli_shell.FILES)
def demo(args: tuple[str, ...], **options: Any) -> int:
    """Run the included Genesis example; without a GPU on two CPU slots."""
    return _start("demo", options, args)


def _start(command: str, options: dict[str, Any], *args: Any, **more: Any) -> int:
    """Call a function of `gmg_tui.commands.run`, whose modules are imported while the engine's process starts."""
    from gmg_tui.commands.prestart import PrestartedEngine

    with PrestartedEngine() as engine:
        from gmg_tui.commands import run as commands
        from gmg_tui.commands.options import RunOptions

        status: int = getattr(commands, command)(_with_patterns(RunOptions(**options)), engine, *args, **more)
        return status


def _settings() -> Configured:
    """The user's settings for the command that is carried out."""
    found = click.get_current_context().find_object(Configured)
    return found or Configured()


def _with_patterns(options: Any) -> Any:
    """Options of a run with the patterns of the user's settings."""
    return options._replace(script_patterns=_settings().patterns)


class _Sweep(click.Command):
    """The command, which keeps the words after `--` for the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the words after the first `--` to `ctx.meta[_AFTER]`, which is not set without a `--`."""
        if "--" in args:
            position = args.index("--")
            ctx.meta[_AFTER] = tuple(args[position + 1 :])
            args = args[:position]
        return super().parse_args(ctx, args)


@_group.command(cls=_Sweep, context_settings=HELP, options_metavar="[OPTIONS]")
@JOBS
@SIMULATE
@SHARED
@click.argument("file", required=False, shell_complete=cli_shell.FILES)
@click.pass_context
def sweep(ctx: click.Context, /, file: str | None, **options: Any) -> int:
    """Queue the jobs of FILE (TOML) on the slots.

    In its args, env and out_dir, and in WORDS after --, {slot}, {gpu}, {i}, {n}, {seed}, {job}, {name}, {out_dir} and
    the values of the file are filled in for each job; {{ is a literal brace. Options override the file.
    """
    from gmg_tui.commands import resume as resuming
    from gmg_tui.commands import sweep as command
    from gmg_tui.commands.options import RunOptions
    from gmg_tui.sweep.overrides import SweepOptions

    run_options = RunOptions(**{name: options.pop(name) for name in RunOptions._fields if name in options})
    run_options = _with_patterns(run_options)
    own = SweepOptions(**options, words=ctx.meta.get(_AFTER))
    if own.resume is None:
        return command.sweep(file, run_options, own, _settings().below)
    given = frozenset(name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    return resuming.resume(file, run_options, own, given)


class _Tune(click.Command):
    """The command, whose long options may also stand after the script; the words after `--` are the script's alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move its options before the script."""
        takes_value = {
            name: not one.is_flag
            for one in self.params
            if isinstance(one, click.Option)
            for name in one.opts
            if name.startswith("--")
        }
        _, script = _options_before(args, {name for name, value in takes_value.items() if value})
        own, words = args[:script], args[script : script + 1]
        left = iter(args[script + 1 :])
        for word in left:
            if word == "--":
                words += left
                break
            name, sign, _ = word.partition("=")
            (own if name in takes_value else words).append(word)
            if takes_value.get(name) and not sign:
                own += [value for value in [next(left, None)] if value is not None]
        return super().parse_args(ctx, [*own, *words])


@_group.command(cls=_Tune, context_settings=_RUN)
@TUNING
@SIMULATE
@SHARED
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `python -m`.")
@click.argument("script", required=False, shell_complete=cli_shell.FILES)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=cli_shell.FILES)
@click.pass_context
def tune(
    ctx: click.Context, /, script: str | None, args: tuple[str, ...], module: bool, resume: str | None, **options: Any
) -> int:
    """Find the best value of one number, such as -B {n_envs}, by measuring SCRIPT on the slots.

    The answer is the fastest value, the smallest that is nearly as fast, and the largest that runs. Options may also
    stand after SCRIPT; what follows -- is the script's alone.
    """
    from gmg_tui.commands.prestart import PrestartedEngine

    with PrestartedEngine() as engine:
        from gmg_tui.commands import tune as command
        from gmg_tui.commands.options import RunOptions

        run_options = RunOptions(**{name: options.pop(name) for name in RunOptions._fields if name in options})
        run_options = _with_patterns(run_options)
        own = command.TuneOptions(**options)
        if resume is not None:
            given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            return command.resume(resume, run_options, own, frozenset(given), script)
        return command.tune(run_options, own, engine, script, args, module=module, own_options=_own_options(args))


for _command in (gpus, ls, attach, share, serve):
    _group.add_command(_command)


@_group.command(context_settings=HELP)
@click.argument("name", required=False, shell_complete=RUNNING)
@click.option("--gone", is_flag=True, help="Count the session as lost: it ran on another machine, which is gone.")
def stop(name: str | None, gone: bool) -> int:
    """Stop the workers of a running session, by default the newest."""
    return call("stop", name, gone=gone)


@_group.command(context_settings=HELP, options_metavar="[-f] [-n N]")
@click.argument("words", nargs=-1, metavar="[NAME] SLOT|JOB", shell_complete=cli_shell.LOGS)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the session, or the job, has ended.")
@click.option("-n", "--lines", type=int, metavar="N", help="Start with the last N lines.")
def logs(words: tuple[str, ...], follow: bool, lines: int | None) -> int:
    """Print a worker's log, by default the newest session's."""
    return call("logs", words, follow=follow, lines=lines)


@_group.command(context_settings=HELP)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=SESSIONS)
@click.option("--json", "as_json", is_flag=True, help="Print the detailed results, and the GPUs' health events (JSON).")
@click.option("--csv", "as_csv", is_flag=True, help="Print the summary of the results (CSV).")
@click.option("--html", metavar="FILE", help="Write a page with the timeline, charts and all jobs.")
@click.option("--best", metavar="COLUMN", help="The column to order the table by; -COLUMN: smallest first.")
def report(names: tuple[str, ...], as_json: bool, as_csv: bool, html: str | None, best: str | None) -> int:
    """Print what a session did, by default the newest; with several names, what differs and what it did to the rate."""
    return call("report", names, as_json=as_json, as_csv=as_csv, html=html, best=best)


_group.add_command(cli_metrics.metrics)


@_group.command(context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=cli_shell.OVER)
@YES
def rm(names: tuple[str, ...], yes: bool) -> int:
    """Remove sessions that have ended.

    Logs and results go, and what jobs wrote into the session's folder: it is listed with its size, and on a terminal
    you are asked. A running session is never removed.
    """
    return call("rm", names, yes=yes)


@_group.command(context_settings=HELP)
@click.option("--older", metavar="AGE", help="Those that ended longer ago: 30d, 12h, 1d12h.")
@click.option("--keep", type=int, metavar="N", help="But not the N that ended last.")
@click.option("--dry-run", is_flag=True, help="List what would go, with sizes; remove nothing.")
@YES
def prune(older: str | None, keep: int | None, dry_run: bool, yes: bool) -> int:
    """Remove the sessions that ended long ago.

    Give --older, --keep, or both. It lists and asks as rm does.
    """
    return call("prune", older=older, keep=keep, dry_run=dry_run, yes=yes)


@_group.command("slurm-script", context_settings={**_RUN, "ignore_unknown_options": True})
@click.option("--gpus-per-node", type=int, default=8, show_default=True, metavar="N", help="GPUs that the job gets.")
@click.option("--time", metavar="T", help="The job's limit, as sbatch takes it: 4:00:00.  [default: the partition's]")
@click.option("--partition", metavar="P", help="The partition.")
@click.option(
    "--save-before", default="5m", show_default=True, metavar="T", help="How long before the limit the session saves."
)
@click.option("--sbatch", multiple=True, metavar="OPTION", help="An option of sbatch, as --account=robots; repeatable.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def slurm_script(words: tuple[str, ...], **options: Any) -> int:
    """Print a file for sbatch that runs COMMAND, all that would follow gmg-tui: sim.py -B 4096, or sweep sweep.toml.

    It runs without a screen, saves before its limit, and goes on with a sweep or a tuning when Slurm requeues it.
    """
    arranged = arrange(words)
    return call("slurm_script", arranged, own=_own_words(arranged), **options)


for _command in (collect, doctor, config, cli_shell.completion, cli_shell.man, agent, node_logs):
    _group.add_command(_command)


def arrange(words: Sequence[str]) -> list[str]:
    """`words` with the command's name first.

    The first word that is neither an option nor an option's value is a command, or the script for `run`.
    """
    takes_value = _with_values()
    words = _with_ddp_sizes(words, takes_value)
    options_before, position = _options_before(words, takes_value)
    for place in options_before:
        if words[place] in {"-h", "--help", "--version"} and not _is_command(words[place + 1 :]):
            return [*{words[one] for one in options_before} & {"--json"}, words[place]]
    before, rest = words[:position], words[position:]
    if rest[:1] == ["run"]:
        return ["run", *before, *_with_ddp_sizes(rest[1:], takes_value)]
    return [rest[0], *before, *rest[1:]] if _is_command(rest) else ["run", *before, *rest]


def _with_values() -> set[str]:
    """The options of all commands that take a value."""
    options = [option for command in _group.commands.values() for option in command.params]
    return {name for one in options if isinstance(one, click.Option) and not one.is_flag for name in one.opts}


def _own_words(arranged: Sequence[str]) -> list[str]:
    """The words after a command that are gmg-tui's own, and not the script's."""
    command, *rest = arranged
    if command in {"run", "demo"}:
        return rest[: _options_before(rest, _with_values())[1]]
    return rest[: rest.index("--")] if "--" in rest else rest


def _with_ddp_sizes(words: Sequence[str], takes_value: Collection[str]) -> list[str]:
    """`words` in which the size of `--ddp` before the script, a number or nothing, is in the same word.

    Click would take the script for its value.
    """
    found, left = list[str](), list(words)
    while left and left[0] != "--" and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--ddp":
            word = f"--ddp={left.pop(0) if left and left[0].isdecimal() else ALL}"
        found.append(word)
        if word in takes_value and left:
            found.append(left.pop(0))
    return found + left


def _options_before(words: Sequence[str], takes_value: Collection[str]) -> tuple[list[int], int]:
    """Where the options before the first word stand, which is neither one nor the value of one; where that word is."""
    options, position = list[int](), 0
    while position < len(words) and words[position].startswith("-") and words[position] not in {"-", "--"}:
        options.append(position)
        position += 2 if words[position] in takes_value else 1
    return options, position


def _is_command(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in _group.commands


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line, by default this process's, and exit with its status."""
    words, settings = sys.argv[1:] if words is None else words, Configured()
    _prepare_output()
    try:
        cli_shell.answer(_group, arrange, _own_words)
        # Without a word there is nothing to run: show the help, and exit with the status of wrong usage.
        arranged = arrange(words) if words else ["--help"]
        settings = configured(_group, arranged, _own_words(arranged))
        of_command = {arranged[0]: settings.options}
        status = _group.main(arranged, prog_name="gmg-tui", standalone_mode=False, default_map=of_command, obj=settings)
        sys.stdout.flush()
    except (click.ClickException, GmgError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"gmg-tui: {settings.blame(text)}", file=sys.stderr)
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        status = _INTERRUPTED
    except BrokenPipeError:
        _let_go_of_output()
        status = 1
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _let_go_of_output()
        print(f"gmg-tui: cannot write standard output: {error.strerror}", file=sys.stderr)
        status = 1
    sys.exit(status if words else 2)


def _let_go_of_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_output() -> None:
    """Make printing safe where a stream is closed or its encoding lacks a character."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the program lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
