"""The group of all commands: help, completion, command lines without a command, and one-line errors."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gmg_tui.cli.config import Settings
from gmg_tui.cli.grammar import Command
from gmg_tui.cli.printing import make_streams_safe, note
from gmg_tui.model.errors import GmgError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_INTERRUPTED = 130
_COMPLETE = "_GMG_TUI_COMPLETE"
"""Set by a shell for completion."""
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
"""Options of `run` shown in the main help."""


class CommandGroup(click.Group):
    """The commands; a command line without one runs a script."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the commands in the order of their declaration."""
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes both ways to call it."""
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
            click.echo(_BARE)
            ctx.exit(2)
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help", "--version"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Returns the commands, and has the shell complete a script."""
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
        if _COMPLETE in os.environ:
            importlib.import_module("gmg_tui.cli.completion")
        try:
            status = super().main(args, prog_name or "gmg-tui", **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except (click.ClickException, GmgError) as error:
            note(f"gmg-tui: {_text(error)}")
            status = error.exit_code
        except (KeyboardInterrupt, click.Abort):
            status = _INTERRUPTED
        except OSError as error:  # such as a full disk
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushed again at exit
            if not isinstance(error, BrokenPipeError):
                note(f"gmg-tui: {error}")
            status = 1
        sys.exit(status)


def _text(error: click.ClickException | GmgError) -> str:
    """Returns an error as one line, beginning with the option, after the settings file if that sets it."""
    if not isinstance(error, click.BadParameter) or not isinstance(error.param, click.Option):
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    message = error.message.rstrip(".").replace("integer range", "integer").replace("float range", "number")
    text, ctx = f"{error.param.opts[0]} {message}", error.ctx
    if ctx is None or ctx.get_parameter_source(error.param.name or "") is not ParameterSource.DEFAULT_MAP:
        return text
    return f"{ctx.ensure_object(Settings).path}: {text}"
