"""The commands that show, change and remove sessions, and those about this machine."""

from __future__ import annotations

import importlib
from typing import Any, Final

import click

from gmg_tui.commands import grammar
from gmg_tui.errors import GmgError
from gmg_tui.options import Options

_LIBRARIES = {"metrics": "prometheus_client", "serve": "textual-serve"}
"""What commands need that have an extra of their name."""


def _call(command: str, *args: Any, **options: Any) -> int:
    """Call the function of a command, whose module is imported only now."""
    try:
        module = importlib.import_module(f"gmg_tui.commands.{command}")
    except ImportError as error:
        if command not in _LIBRARIES or (error.name or "").startswith("gmg_tui"):
            raise
        needed = f"{command} needs {_LIBRARIES[command]}"
        raise GmgError(f"{needed}; get it with: pip install 'gmg-tui[{command}]'", 1) from None
    status: int = getattr(module, command)(*args, **options)
    return status


def _sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of sessions that begin so, for a shell."""
    from gmg_tui import session

    return sorted(folder.name for folder in session.folders() if folder.name.startswith(incomplete))


_name = click.argument("name", required=False, shell_complete=_sessions)
_names = click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_sessions)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(params=grammar.screen_options())
@_name
@click.option("--readonly", is_flag=True, help="Do not change anything.")
def attach(name: str | None, readonly: bool, **values: Any) -> int:
    """Open the screen on a session, by default the newest.

    A session that has ended is named; its last moment and its logs are shown, read-only.
    """
    return _call("attach", name, Options(**values), readonly=readonly)


@click.command
@_json
def ls(as_json: bool) -> int:
    """List the sessions."""
    return _call("ls", as_json=as_json)


@click.command
@_names
@click.option("--all", "everything", is_flag=True, help="Stop all running sessions.")
@click.option("--gone", is_flag=True, help="Mark a session as lost: its machine is gone.")
def stop(names: tuple[str, ...], everything: bool, gone: bool) -> int:
    """Stop running sessions; NAME may be left out if only one runs."""
    return _call("stop", names, everything=everything, gone=gone)


@click.command
@_names
@click.option("--older", metavar="AGE", help="Remove sessions that ended longer ago: 30d, 12h.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the N sessions that ended last.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking; needed without a terminal.")
def rm(names: tuple[str, ...], **options: Any) -> int:
    """Remove ended sessions: those named, or by age.

    Their logs and results go. Each is listed with its size, and on a terminal gmg-tui asks first. A running session is never
    removed.
    """
    return _call("rm", names, **options)


@click.command
@click.argument("words", nargs=-1, metavar="[NAME] [SLOT|JOB]", shell_complete=_sessions)
@click.option("-f", "--follow", is_flag=True, help="Print until the session or job has ended.")
def logs(words: tuple[str, ...], follow: bool) -> int:
    """Print a worker's log, by default the newest session's.

    NAME alone means its only worker or job, or the only one that has failed.
    """
    return _call("logs", words, follow=follow)


@click.command
@_names
@click.option("--json", "as_json", is_flag=True, help="Print the detailed results (JSON).")
@click.option("--csv", "as_csv", is_flag=True, help="Print the summary of the results (CSV).")
@click.option("--html", metavar="FILE", help="Write a page with charts.")
@click.option("--best", metavar="COLUMN", help="Sort by COLUMN; -COLUMN: smallest first.")
def report(names: tuple[str, ...], **options: Any) -> int:
    """Print what a session did, or compare several."""
    return _call("report", names, **options)


@click.command
@_json
def gpus(as_json: bool) -> int:
    """Print one line for each GPU."""
    return _call("gpus", as_json=as_json)


@click.command
@click.option("--listen", metavar="HOST:PORT", help="Serve there. [default: 127.0.0.1:9400]")
@click.option("--textfile", metavar="FILE", help="Write FILE every 15 s instead, for node_exporter.")
def metrics(**options: Any) -> int:
    """Export Prometheus metrics for running sessions."""
    return _call("metrics", **options)


@click.command(params=grammar.screen_options(("theme", "ascii_only", "no_mouse")))
@_name
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8400,
    show_default=True,
    metavar="N",
    help="Port on 127.0.0.1; 0: any free one.",
)
def serve(name: str | None, port: int, **values: Any) -> int:
    """Show a running session in a browser, read-only."""
    return _call("serve", name, port, Options(**values))


@click.command
@click.argument("topic", required=False)
def guide(topic: str | None) -> int:
    """Open the manual; without a terminal, print it."""
    return _call("guide", topic)


@click.command
@click.option("--python", metavar="PATH", help="The workers' interpreter, as for run.")
@_json
def doctor(python: str | None, as_json: bool) -> int:
    """Check this machine: driver, GPUs, Genesis, EGL, disk."""
    return _call("doctor", python, as_json=as_json)


@click.command(hidden=True)
def agent() -> int:
    """Connect a node's agent to standard input and output; gmg-tui runs it itself."""
    return _call("agent")


COMMANDS: Final = (attach, ls, stop, rm, logs, report, gpus, metrics, serve, guide, doctor, agent)
"""In the order of the help."""
