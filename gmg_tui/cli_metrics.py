"""The command `metrics`, as the command line has it."""

from __future__ import annotations

import click

from gmg_tui.cli_options import RUNNING


@click.command("metrics", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=RUNNING)
@click.option("--listen", metavar="WHERE", help="HOST:PORT or unix:PATH.  [default: 127.0.0.1:9400]")
@click.option("--textfile", metavar="FILE", help="Write FILE every 15 s instead, for node_exporter.")
@click.option("--dcgm-names", is_flag=True, help="Also tell of the GPUs in the names of NVIDIA's dcgm-exporter.")
def metrics(names: tuple[str, ...], listen: str | None, textfile: str | None, dcgm_names: bool) -> int:
    """Tell Prometheus what running sessions do, by default all, also those that start later.

    With names it ends two minutes after those sessions have.
    """
    from gmg_tui.commands.metrics import metrics as command

    return command(names, listen=listen, textfile=textfile, dcgm_names=dcgm_names)
