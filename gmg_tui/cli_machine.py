"""The commands that are about a machine, and the one that launchers run on each."""

from __future__ import annotations

import click

from gmg_tui.cli_options import HELP, ON_NODES, call


@click.command(context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@ON_NODES
def gpus(as_json: bool, nodes: str | None) -> int:
    """Print one line for each GPU."""
    return call("gpus", as_json=as_json, nodes=nodes)


@click.command(context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@ON_NODES
def ls(as_json: bool, nodes: str | None) -> int:
    """Print your sessions."""
    return call("ls", as_json=as_json, nodes=nodes)


@click.command(context_settings=HELP)
@click.option("--python", metavar="PATH", help="The workers' interpreter, as for `run`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--facts", is_flag=True, hidden=True)
@ON_NODES
def doctor(python: str | None, as_json: bool, facts: bool, nodes: str | None) -> int:
    """Check whether this machine is ready for a run; with --nodes each of them, and whether they are alike."""
    if nodes is not None:
        return call("doctor.nodes", python, as_json=as_json, where=nodes)
    return call("doctor", python, as_json=as_json, with_facts=facts)


@click.command(hidden=True)
def agent() -> int:
    """Connect a node's agent to standard input and output; gmg-tui runs it itself."""
    return call("agent")


@click.command(context_settings=HELP)
@click.argument("name", required=False)
def collect(name: str | None) -> int:
    """Bring the logs of an ended session of several machines together, where its engine could not."""
    return call("collect", name)


@click.command("node-logs", hidden=True)
@click.argument("name")
def node_logs(name: str) -> int:
    """Write what a node has kept of a session to standard output; gmg-tui runs it itself."""
    return call("node_logs", name)
