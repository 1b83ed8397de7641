"""`share`: let other users of this machine look at a running session."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gmg_tui import recovery, shares
from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.model import Session
from gmg_tui.shares import Address


def share(name: str | None, *, group: str | None, ends: bool) -> int:
    """Share a running session with a group, or with nobody any more; the exit status. Raises `GmgError`."""
    if (group is None) != ends:
        raise GmgError("share: give either --group GROUP, whose users may look, or --stop")
    number = shares.group_of(group) if group is not None else None
    recovery.clear(tell)
    found = sessions.find(name, running=True, command="share")
    address = str(Address(shares.user_name(os.getuid()), os.getuid(), found.name))
    asyncio.run(_ask(found.record.session, number, group or "", address))
    if group is None:
        tell(f"{found.name} is not shared any more")
    else:
        tell(
            f"{found.name} may be looked at by the group {group}, until `gmg-tui share {found.name} --stop` or its end:"
        )
        print(f"gmg-tui attach {address}")
    return 0


async def _ask(session: Session, group: int | None, group_name: str, address: str) -> None:
    client = await EngineClient.connect(Path(session.spec.socket), session.id)

    async def listen() -> None:
        async for _ in client.events():
            pass

    listening = asyncio.create_task(listen())
    try:
        await client.share(group, group_name, address)
    finally:
        await client.close()
        listening.cancel()
