"""The command line: declares the commands, and calls the module of `gmg_tui.commands` that carries one out."""

from __future__ import annotations

import errno
import importlib
import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import gmg_tui
from gmg_tui import config
from gmg_tui.commands import grammar
from gmg_tui.commands.declared import COMMANDS
from gmg_tui.commands.grammar import OPTIONS, WORDS, ScriptCommand
from gmg_tui.config import Settings
from gmg_tui.errors import GmgError, nearest
from gmg_tui.options import RUN, SCREEN, SWEEP_ONLY, TUNE_ONLY, Opt, Options, Program

_INTERRUPTED = 130
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why standard output may not be written."""
_BARE = """\
gmg-tui runs a Genesis script on every GPU of this machine and shows what each one does.

  gmg-tui sim.py -B 4096                    run sim.py on every GPU
  gmg-tui tune sim.py -B {n_envs}           find the best number of environments
  gmg-tui sweep sweep.toml                  run many jobs, one per GPU at a time
  gmg-tui demo --simulate 8                 try it on eight simulated GPUs
  gmg-tui ls, attach, logs, stop, report    what runs and what has run
  gmg-tui --help                            all commands
  gmg-tui guide                             the manual
  gmg-tui doctor                            what this machine has and lacks"""
_MAIN_OPTIONS = ("gpus", "cpu", "env", "restart", "headless", "detach", "nodes", "ddp")
"""Those in the main help."""
_SCREEN_OPTIONS = tuple(opt for opt in RUN if opt.name in SCREEN)
_OPTIONS: Mapping[str, tuple[Opt, ...]] = {
    "run": RUN,
    "demo": RUN,
    "tune": (*TUNE_ONLY, *RUN),
    "sweep": (*SWEEP_ONLY, *RUN),
    "attach": _SCREEN_OPTIONS,
    "serve": _SCREEN_OPTIONS,
}
"""Of each command that reads `config.toml` its options."""


class _Group(click.Group):
    """The commands. Words that begin with none of them are those of `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of their declaration."""
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two ways to call it."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT [ARGS]...")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, and the options of `run` that one machine needs most."""
        self.format_commands(ctx, formatter)
        main = [opt for opt in self.commands["run"].params if opt.name in _MAIN_OPTIONS]
        with formatter.section("Options of run (all: gmg-tui run --help)"):
            rows = [opt.get_help_record(ctx) for opt in (*main, *self.get_params(ctx))]
            formatter.write_dl([row for row in rows if row])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before words that begin with no command, and take the command's defaults from `config.toml`."""
        if not args and not ctx.resilient_parsing:
            click.echo(_BARE)
            ctx.exit(2)
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help", "--version"}:
            ctx.meta["gmg_tui.implied"] = True
            args = ["run", *args]
        if args and not ctx.resilient_parsing and not {"-h", "--help"} & {*args[1:2]}:
            ctx.obj = settings = _settings(args[0])
            ctx.default_map = {args[0]: settings.options} if settings else None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; an error about an option that `config.toml` set names the file."""
        try:
            return super().invoke(ctx)
        except (click.UsageError, GmgError) as error:
            text, settings = _text(error), ctx.find_object(Settings)
            if settings and _is_of_settings(error, settings):
                text = f"{settings.path}: {text}"
            raise GmgError(text, error.exit_code) from error

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command line, by default this process's, and exit with its status; an error is one line."""
        _prepare_output()
        try:
            status = super().main(args, prog_name or "gmg-tui", **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except (click.ClickException, GmgError) as error:
            print(f"gmg-tui: {_text(error)}", file=sys.stderr)
            status = error.exit_code
        except (KeyboardInterrupt, click.Abort):
            status = _INTERRUPTED
        except BrokenPipeError:
            _discard_output()
            status = 1
        except OSError as error:
            if error.errno not in _FULL or error.filename is not None:
                raise
            _discard_output()
            print(f"gmg-tui: cannot write standard output: {error.strerror}", file=sys.stderr)
            status = 1
        sys.exit(status)


def _is_of_settings(error: click.UsageError | GmgError, settings: Settings) -> bool:
    """Whether an error is about a value that `config.toml` sets."""
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx is not None:
        return error.ctx.get_parameter_source(error.param.name or "") is ParameterSource.DEFAULT_MAP
    return _text(error).partition(" ")[0].strip("-:").replace("-", "_") in settings.options


def _text(error: click.ClickException | GmgError) -> str:
    """An error in one line, which begins with the option that it is about."""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        return f"{error.param.opts[0]} {error.message.rstrip('.')}"
    return error.format_message() if isinstance(error, click.ClickException) else str(error)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_output() -> None:
    """Make printing safe where a stream is closed or its encoding lacks a character."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the program lives
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _settings(command: str) -> Settings | None:
    """What `config.toml` sets for a command; None without it. Raises `GmgError`."""
    file = config.path()
    if command not in _OPTIONS or file is None or not os.path.exists(file):  # noqa: PTH110 - raises nothing
        return None
    settings = config.read(file, command, _OPTIONS)
    if settings.keys:
        from gmg_tui.ui import keys

        for name in settings.keys:
            if name not in keys.ids():
                raise GmgError(f"{file}: [keys] there is no action {name}{nearest(name, keys.ids())}")
        try:
            keys.remap(settings.keys)
        except ValueError as error:
            raise GmgError(f"{file}: [keys] {error}") from None
    if settings.readers:
        from gmg_tui.readers import formats

        try:
            formats.check_tables(settings.readers)
        except GmgError as error:
            raise GmgError(f"{file}: {error}") from error
    return settings


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(gmg_tui.__version__, message="gmg-tui %(version)s")
def _group() -> None:
    """Run a Genesis script on every GPU of this machine, and monitor and control it."""


def _start(of: str, function: str, *args: Any, **more: Any) -> int:
    """Call a function of the module `of` in `gmg_tui.commands`, which is imported while the engine's process starts."""
    from gmg_tui.commands.prestart import PrestartedEngine

    with PrestartedEngine() as engine:
        command = getattr(importlib.import_module(f"gmg_tui.commands.{of}"), function)
        status: int = command(*args, engine=engine, **more)
        return status


_module = click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as for python -m.")
_script = click.argument("script", required=False, metavar="SCRIPT")
_args = click.argument("args", nargs=-1, type=click.UNPROCESSED)


def _options() -> Options:
    """The options of the command that is called."""
    options: Options = click.get_current_context().meta[OPTIONS]
    return options


@_group.command(cls=ScriptCommand, tables=(RUN,), short_help="Run SCRIPT on every GPU.")
@_module
@_script
@_args
def run(script: str | None, args: tuple[str, ...], module: bool, **_: Any) -> int:
    """Run SCRIPT on every GPU.

    Everything after SCRIPT belongs to it. In ARGS and --env, {slot}, {gpu}, {i}, {n} and {seed} are filled in for each
    worker; {{ is a literal brace. All options and settings: gmg-tui guide options.
    """
    ctx, options = click.get_current_context(), _options()
    if options.simulate is not None:
        if script is not None:
            demo = f"gmg-tui demo --simulate {options.simulate}"
            raise GmgError(f"--simulate runs the bundled script, not {script}: {demo}")
        return _start("run", "demo", options, args=())
    if script is None:
        raise GmgError("give a SCRIPT, as in: gmg-tui sim.py -B 4096")
    if not module and ctx.meta.get("gmg_tui.implied") and not os.path.exists(script):  # noqa: PTH110 - raises nothing
        _explain_script(ctx, script)
    ours, others = grammar.misplaced(ctx.command, args)
    try:
        return _start("run", "run", options, program=_program(script, args, module=module))
    except GmgError as error:
        if ours and str(error).startswith("no GPU"):
            order = "gmg-tui --help" if "--help" in ours else shlex.join(["gmg-tui", *ours, script, *others])
            raise GmgError(f"no GPU; options go before the script: {order}", error.exit_code) from error
        raise


def _program(script: str | None, args: Sequence[str], *, module: bool) -> Program | None:
    """What workers run, with the options of gmg-tui among the arguments, for the advice if the script rejects them."""
    if script is None:
        return None
    ours, _ = grammar.misplaced(click.get_current_context().command, args)
    names = [name for word in ours if (name := word.partition("=")[0]).startswith("--")]
    return Program(script, tuple(args), module, tuple(dict.fromkeys(names)))


def _explain_script(ctx: click.Context, script: str) -> None:
    """Raise `GmgError` where a word that names no file is, or may be meant to be, a command."""
    if script in _group.commands:
        words = list(ctx.meta[WORDS])
        words.remove(script)
        raise GmgError(f"options go after the command: gmg-tui {shlex.join([script, *words])}")
    if script == "help":
        raise GmgError("there is no command help; see gmg-tui --help, or gmg-tui guide")
    if Path(script).name == script and not Path(script).suffix:
        hint = nearest(script, _group.commands) or "; gmg-tui --help lists the commands"
        raise GmgError(f"there is no command or script {script}{hint}")


@_group.command(cls=ScriptCommand, tables=(TUNE_ONLY, RUN), short_help="Find the best value of one number.")
@_module
@_script
@_args
def tune(script: str | None, args: tuple[str, ...], module: bool, **_: Any) -> int:
    """Find the best value of one number, such as -B {n_envs}, by measuring SCRIPT on the slots.

    Prints the fastest value, the smallest that is nearly as fast, and the largest that runs. Everything after SCRIPT
    belongs to it. Takes the options of run too: gmg-tui run --help.
    """
    options = _options()
    if options.resume is not None:
        return _start("tune", "resume", options)
    return _start("tune", "tune", options, program=_program(script, args, module=module))


@_group.command(cls=ScriptCommand, tables=(SWEEP_ONLY, RUN), short_help="Queue many jobs on the slots.")
@click.option("--script", "is_script", is_flag=True, help="Run SCRIPT with ARGS instead of a FILE.")
@_module
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="FILE | --script SCRIPT [ARGS]...")
def sweep(words: tuple[str, ...], is_script: bool, module: bool, **_: Any) -> int:
    """Queue jobs on the slots: those of FILE (TOML), or with --script one for each combination of --set.

    Everything after SCRIPT belongs to it: sweep --set n_envs=16,64 --script sim.py -B {n_envs}. Options override
    FILE. Takes the options of run too: gmg-tui run --help.
    """
    options = _options()
    if options.resume is not None:
        return _start("sweep", "resume", options)
    if options.simulate is not None and words:
        raise GmgError(f"--simulate runs the bundled script instead of yours; leave out {words[0]}")
    if is_script and not words:
        raise GmgError("--script: give the SCRIPT and its arguments after it, at the end")
    if is_script:
        return _start("sweep", "sweep", options, file=None, program=_program(words[0], words[1:], module=module))
    if len(words) > 1:
        hint = "several values are --set KEY=V1,V2" if options.sets else "only a SCRIPT (--script) has arguments"
        raise GmgError(f"{words[1]}: a sweep has one FILE; {hint}")
    if not words and options.simulate is None:
        raise GmgError("give a FILE, or --set KEY=V1,V2 --script SCRIPT, or --resume NAME")
    return _start("sweep", "sweep", options, file=words[0] if words else None, program=None)


@_group.command(cls=ScriptCommand, tables=(RUN,), short_help="Run the bundled Genesis example.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
def demo(words: tuple[str, ...], **_: Any) -> int:
    """Run the bundled Genesis example: on the GPUs, or on two CPU slots if there are none."""
    return _start("run", "demo", _options(), args=words)


for _other in COMMANDS:
    _group.add_command(_other)


def main(words: Sequence[str] | None = None) -> None:
    """Run a command line, by default this process's, and exit with its status."""
    _group.main(words)
