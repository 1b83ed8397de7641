"""The commands that show a session, here or elsewhere: `attach`, `share` and `serve`."""

from __future__ import annotations

from typing import Any

import click

from gmg_tui.cli_options import HELP, RUNNING, SCREEN, SESSIONS, call, screen_of


@click.command(context_settings=HELP)
@click.argument("name", required=False, shell_complete=SESSIONS)
@click.option("--readonly", is_flag=True, help="Only look: no key changes anything.")
@SCREEN
def attach(name: str | None, **options: Any) -> int:
    """Open the screen on a running session, by default the newest; on one that has ended, look back.

    USER/NAME is a session that another user shares with a group of yours; it is read-only.
    """
    return call("attach", name, **screen_of(options))


@click.command(context_settings=HELP)
@click.argument("name", required=False, shell_complete=RUNNING)
@click.option("--group", metavar="GROUP", help="Whose users may look.")
@click.option("--stop", "ends", is_flag=True, help="Share it with nobody any more, and close their screens.")
def share(name: str | None, group: str | None, ends: bool) -> int:
    """Let a group look at a running session, by default the newest.

    Its users, on this machine, give attach USER/NAME, your name and the session's; it is read-only, and ends with the session.
    """
    return call("share", name, group=group, ends=ends)


@click.command(context_settings=HELP)
@click.argument("name", required=False, shell_complete=RUNNING)
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:8400", show_default=True, help="Where; port 0 is any free one."
)
@click.option("--steer", is_flag=True, help="Whoever has the address may also restart, stop and edit.")
@SCREEN
def serve(name: str | None, listen: str, steer: bool, **options: Any) -> int:
    """Show a running session in browsers, by default the newest; ctrl+c ends that.

    The address that is printed has a token in it, and whoever has the address may look.
    """
    return call("serve", name, listen=listen, steer=steer, **screen_of(options))
