"""The commands and options that are for shells and bug reports: `completion`, `man`, `--version` and its `--json`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

import gmg_tui
from gmg_tui.cli_options import HELP, call, completes

FILES, OVER, LOGS = map(completes, ("files", "over", "logs"))
_JSON = "gmg_tui.json"


def _remember_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_JSON] = value


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    if ctx.meta.get(_JSON):
        call("versions")
    else:
        click.echo(f"gmg-tui {gmg_tui.__version__}")
    ctx.exit()


def version_options(function: Any) -> Any:
    """The options `--version` and `--json`; `arrange` puts `--json` before `--version`."""
    for name, callback, text in (
        ("--json", _remember_json, "With --version: print what a bug report needs, as JSON."),
        ("--version", _print_version, "Show the version and exit."),
    ):
        function = click.option(name, is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text)(
            function
        )
    return function


@click.command("completion", context_settings=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> int:
    """Print the script by which a shell completes commands, options, sessions, slots and presets."""
    return call("completion", ctx.find_root().command, shell)


@click.command("man", context_settings=HELP)
@click.pass_context
def man(ctx: click.Context) -> int:
    """Print the manual page, for man -l."""
    return call("man_page", ctx.find_root().command)


def _answered(*args: Any) -> int:
    from gmg_tui.commands.completion import answer as answer_shell

    return answer_shell(*args)


def answer(
    group: click.Group, arrange: Callable[[Sequence[str]], list[str]], own: Callable[[Sequence[str]], list[str]]
) -> None:
    """Where a shell asks what fits the words so far, print that and exit; words are told apart by `arrange` and `own`."""
    if "_GMG_TUI_COMPLETE" in os.environ:
        sys.exit(_answered(group, arrange, own))
