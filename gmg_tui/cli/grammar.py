"""The grammar of the command line: commands, options, SCRIPT and its arguments, help and one-line errors."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gmg_tui.cli import config
from gmg_tui.cli.config import Settings
from gmg_tui.cli.printing import make_streams_safe, note
from gmg_tui.model.errors import GmgError, suggest
from gmg_tui.session.options import EXCLUSIVE, SCREEN, TABLES, Opt, Options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


OPTIONS_KEY = "gmg_tui.session.options"
"""Key of a command's `Options` in `Context.meta`."""
_MIN_SIMILARITY = 0.8
"""Similarity (difflib's ratio) above which a word counts as a misspelled option."""
_HELP = ("-h", "--help")
_TAKES_OPTIONS = ("--resume-args",)
"""Options whose value may look like an option of gmg-tui."""
_INTERRUPTED = 130
_COMPLETION_VARIABLE = "_GMG_TUI_COMPLETE"
"""Environment variable that the shell sets to request completions."""
_INTRODUCTION = """\
gmg-tui runs a Genesis script on every GPU of this machine and shows what each one is doing.

  gmg-tui sim.py -B 4096                    run sim.py on every GPU
  gmg-tui tune sim.py -B {n_envs}           find the best number of environments
  gmg-tui sweep sweep.toml                  run many jobs, one per GPU at a time
  gmg-tui demo --simulate 8                 try it on eight simulated GPUs
  gmg-tui ls, attach, logs, stop, report    what is running and what has run
  gmg-tui --help                            all commands
  gmg-tui guide                             the manual
  gmg-tui doctor                            what this machine has and lacks"""
_MAIN_OPTIONS = ("gpus", "cpu", "env", "restart", "headless", "detach", "nodes", "ddp")
"""Options of `run` shown in the main help."""


class Command(click.Command):
    """A command whose options do not take other options as their values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words, and explains an unknown option."""
        try:
            return super().parse_args(ctx, self._with_bare_values(ctx, args))
        except click.NoSuchOption as error:
            name = error.option_name
            places = {"demo": "the example go after --", "sweep": "a script go after --script SCRIPT"}
            place = places.get(self.name or "", "the script go after it")
            script_hint = f", and options of {place}" if isinstance(self, ScriptCommand) else ""
            hint = suggest(name, error.possibilities or (), _MIN_SIMILARITY)
            hint = hint or f"; gmg-tui {self.name} --help lists them{script_hint}"
            raise click.UsageError(f"there is no option {name}{hint}", ctx) from None

    def _with_bare_values(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Returns `args` with a value for options such as `--ddp` that are given without one.

        Click would take the next word as the value. Raises `click.UsageError` for other options without a value.
        """
        words, position = list(args), 0
        options = {name: opt for opt in self.params if isinstance(opt, click.Option) for name in opt.opts}
        while position < len(words) and words[position] != "--":
            word, following = words[position], words[position + 1] if position + 1 < len(words) else ""
            if not word.startswith("-") and not ctx.allow_interspersed_args:
                break
            position += 1
            if (opt := options.get(word)) is None or opt.is_flag or ctx.resilient_parsing:
                continue
            if isinstance(opt, Opt) and opt.bare and not opt.accepts(following):
                words[position - 1] = f"{word}={opt.bare}"
            elif position == len(words) or (
                following in options and following.startswith("--") and word not in _TAKES_OPTIONS
            ):
                position_hint = f" before {following}" if following else ""
                raise click.UsageError(
                    f"{word} needs a value{position_hint}, such as {word} {opt.make_metavar(ctx)}", ctx
                )
            else:
                position += 1
        return words


class ConfiguredCommand(Command):
    """A command with options from `options.TABLES`, and their defaults from `config.toml`."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.params += [opt for table in TABLES[name] for opt in table]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the command's own options, its first table and `--help`."""
        hidden = [opt for table in TABLES[self.name or ""][1:] for opt in table]
        shown = [opt for opt in self.get_params(ctx) if isinstance(opt, click.Option) and opt not in hidden]
        with formatter.section("Options"):
            formatter.write_dl([row for opt in shown if (row := opt.get_help_record(ctx)) is not None])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words, and sets the command's `Options`."""
        assert self.name is not None
        if not ctx.resilient_parsing and args[:1] not in ([word] for word in _HELP):
            ctx.obj = settings = settings_of(self.name)
            ctx.default_map = settings.options if settings is not None else None
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            ctx.meta[OPTIONS_KEY] = self._options(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Calls the command; an error about an option from `config.toml` names the file."""
        try:
            return super().invoke(ctx)
        except GmgError as error:
            option = str(error).partition(" ")[0].strip("-:").replace("-", "_")
            if option not in ctx.meta[OPTIONS_KEY].configured:
                raise
            raise GmgError(f"{ctx.obj.path}: {error}", error.exit_code) from error

    def _options(self, ctx: click.Context) -> Options:
        """Returns the options. The command line overrides settings, except that `--env` adds to its setting."""

        def values_from(source: ParameterSource) -> dict[str, Any]:
            return {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) is source}

        file: Settings | None = ctx.obj
        given, settings = values_from(ParameterSource.COMMANDLINE), values_from(ParameterSource.DEFAULT_MAP)
        overridden = {name for group in EXCLUSIVE if not given.keys().isdisjoint(group) for name in group}
        if "resume" in given:
            overridden |= settings.keys() - {*(opt.name for opt in SCREEN), "headless", "detach"}
        elif "env" in given and file is not None:
            settings["env"] = file.options.get("env", ())
            ctx.params["env"] = (*settings["env"], *given["env"])
        for param in self.params:
            if param.name in overridden & settings.keys():
                ctx.params[param.name] = param.default
                del settings[param.name]
        return Options(**ctx.params, readers=file.readers if file else {}, given=given, configured=settings)


def settings_of(command: str) -> Settings | None:
    """Returns a command's settings, and applies its keys and themes; None without a trusted file. Raises `GmgError`."""
    file = config.path()
    if file is None or not os.path.exists(file):
        return None
    from gmg_tui.machine.folders import distrust  # only if there is a file

    try:
        reason = distrust(file, shared=True, must_exist=True)
    except OSError:
        return None  # the file was removed
    if reason is not None:
        note(f"settings are not used: {reason}")
        return None
    try:
        settings = config.read(file, command)
        if settings.keys:
            from gmg_tui.ui import keys

            keys.remap(settings.keys)
        if settings.themes:
            from gmg_tui.ui import themes

            themes.add(settings.themes)
        if settings.readers:
            from gmg_tui.scripts.readers import formats

            formats.from_settings(settings.readers)
    except GmgError as error:
        raise GmgError(f"{file}: {error}") from error
    return settings


class ScriptCommand(ConfiguredCommand):
    """A command whose options come before a script."""

    allow_interspersed_args = False

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Returns options; nothing after the script, where the shell completes files."""
        has_script = not ctx.allow_interspersed_args and (ctx.params.get("script") or ctx.params.get("words"))
        return [] if has_script else super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words; options may follow a sweep's FILE, which takes no arguments."""
        if self.name == "sweep":
            ctx.allow_interspersed_args = "--script" not in args
        rest = super().parse_args(ctx, args)
        if self.name == "demo" and ctx.params["words"] and "--" not in args and not ctx.resilient_parsing:
            word = ctx.params["words"][0]
            run_hint = f"to run {word}: gmg-tui {word}"
            raise click.UsageError(
                f"{word}: demo runs the bundled example, whose arguments go after --; {run_hint}", ctx
            )
        return rest


def own_options(command: click.Command, args: Sequence[str]) -> tuple[str, ...]:
    """Returns the long options of gmg-tui among a script's arguments; short ones are ambiguous."""
    names = (word.partition("=")[0] for word in args if word.startswith("--"))
    own_names = {*_HELP, *(name for opt in command.params for name in opt.opts)}
    return tuple(dict.fromkeys(name for name in names if name in own_names))


class CommandGroup(click.Group):
    """The commands; a command line without one runs a script."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the commands in the order of their declaration."""
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes both forms of the command line."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] SCRIPT [ARGS]...")
        formatter.write_usage(ctx.command_path, "COMMAND ...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands, and the main options of `run`."""
        self.format_commands(ctx, formatter)
        main = [opt for opt in self.commands["run"].params if opt.name in _MAIN_OPTIONS]
        with formatter.section("Options of run (all: gmg-tui run --help)"):
            rows = [opt.get_help_record(ctx) for opt in (*main, *self.get_params(ctx))]
            formatter.write_dl([row for row in rows if row])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Inserts `run` if the first word is not a command."""
        if not args and not ctx.resilient_parsing:
            click.echo(_INTRODUCTION)
            ctx.exit(2)
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help", "--version"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Returns the commands, and lets the shell complete a script."""
        from click.shell_completion import CompletionItem  # only for completion

        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, "file")]

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Runs a command line, by default this process's, and exits with its status; prints one-line errors."""
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed
                setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - open until exit
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # its encoding may lack characters
        make_streams_safe()
        if _COMPLETION_VARIABLE in os.environ:
            importlib.import_module("gmg_tui.cli.completion")
        try:
            status = super().main(args, prog_name or "gmg-tui", **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except (click.ClickException, GmgError) as error:
            note(f"gmg-tui: {_error_line(error)}")
            status = error.exit_code
        except (KeyboardInterrupt, click.Abort):
            status = _INTERRUPTED
        except OSError as error:  # such as a full disk
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it again at exit
            if not isinstance(error, BrokenPipeError):
                note(f"gmg-tui: {error}")
            status = 1
        sys.exit(status)


def _error_line(error: click.ClickException | GmgError) -> str:
    """Returns an error as one line, beginning with the option, or with the settings file that sets it."""
    if not isinstance(error, click.BadParameter) or not isinstance(error.param, click.Option):
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    message = error.message.rstrip(".").replace("integer range", "integer").replace("float range", "number")
    text, ctx = f"{error.param.opts[0]} {message}", error.ctx
    if ctx is None or ctx.get_parameter_source(error.param.name or "") is not ParameterSource.DEFAULT_MAP:
        return text
    return f"{ctx.ensure_object(Settings).path}: {text}"
