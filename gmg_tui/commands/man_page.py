"""`man`: a manual page in roff, of the commands and options that `--help` shows."""

from __future__ import annotations

from collections.abc import Iterator

import click

import gmg_tui


def man_page(group: click.Command) -> int:
    """Print the page."""
    assert isinstance(group, click.Group)
    click.echo("\n".join(_page(group)))
    return 0


def _page(group: click.Group) -> Iterator[str]:
    ctx = click.Context(group, info_name="gmg-tui")
    yield f'.TH GMG\\-TUI 1 "" "gmg\\-tui {_text(gmg_tui.__version__)}" "User Commands"'
    yield from (".SH NAME", "gmg\\-tui \\- run a Genesis script on every GPU, and monitor and control it")
    yield from (".SH SYNOPSIS", ".B gmg\\-tui", _text("[OPTIONS] SCRIPT [ARGS]..."), ".br", ".B gmg\\-tui")
    yield "COMMAND ..."
    yield from (".SH DESCRIPTION", *_paragraphs(group.help or ""))
    yield from (".SH OPTIONS", *_options(group, ctx))
    yield ".SH COMMANDS"
    for name in group.list_commands(ctx):
        command = group.commands[name]
        if command.hidden:
            continue
        own = click.Context(command, parent=ctx, info_name=name)
        yield f'.SS "{_text(" ".join([name, *command.collect_usage_pieces(own)]))}"'
        yield from _paragraphs(command.help or "")
        yield from _options(command, own)


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for param in command.get_params(ctx):
        if isinstance(param, click.Option) and (row := param.get_help_record(ctx)):
            yield from (".TP", f'.B "{_text(row[0])}"', _line(row[1]))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".PP", _line(paragraph))


def _line(text: str) -> str:
    """`text` as one line that begins no request, whatever it begins with."""
    return "\\&" + _text(" ".join(text.split()))


def _text(text: str) -> str:
    """`text` with the signs that roff reads otherwise written as it asks for them."""
    signs = {"\\": "\\e", "-": "\\-", '"': "\\(dq", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
    return "".join(signs.get(sign, sign) for sign in text)
