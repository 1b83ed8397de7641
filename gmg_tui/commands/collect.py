"""`gmg-tui collect`: brings the logs that nodes have kept to their session's folder."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.commands.messages import notice, tell
from gmg_tui.engine.launchers.find import launcher_of
from gmg_tui.errors import GmgError
from gmg_tui.files import make_private, write_atomic
from gmg_tui.model import NodesSpec

_WITHIN_S = 600.0
_MARK_LENGTH = 8


def collect(name: str | None) -> int:
    """Bring the logs of an ended session from its nodes; the exit status. Raises `GmgError`."""
    found = sessions.find(name, running=False)
    session = found.record.session
    if session.spec.nodes is None:
        raise GmgError(f"{found.name} ran on one machine: its logs are in {found.folder / sessions.LOGS}")
    if found.state == "running":
        raise GmgError(f"{found.name} is running: it brings its logs when it ends")
    nodes = tuple(dict.fromkeys(slot.node for slot in session.slots))
    with notice(f"asking {units.count(len(nodes), 'node')} for logs"):
        said = asyncio.run(_ask(session.spec.nodes, nodes, found.name, session.id[:_MARK_LENGTH]))
    status = 0
    for node, answer in said.items():
        if isinstance(answer, GmgError):
            tell(f"gmg-tui: {node}: {answer}")
            status = 1
            continue
        count, size = _unpack(answer, found.folder)
        print(f"{node}: {units.count(count, 'log')}, {units.mib(size / (1 << 20))}" if count else f"{node}: nothing")
    return status


async def _ask(spec: NodesSpec, nodes: tuple[str, ...], name: str, mark: str) -> dict[str, bytes | GmgError]:
    launcher = launcher_of(spec, cpu=True)

    async def one(node: str) -> bytes | GmgError:
        try:
            ran = await launcher.run(node, ("node-logs", f"{name}@{node}-{mark}"), _WITHIN_S)
        except GmgError as error:
            return error
        if ran.exit_code != 0:
            last = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return GmgError(last or f"exit status {ran.exit_code}", 1)
        return ran.stdout

    try:
        await launcher.nodes()
        return dict(zip(nodes, await asyncio.gather(*map(one, nodes)), strict=True))
    finally:
        await launcher.close()


def _unpack(data: bytes, folder: Path) -> tuple[int, int]:
    """Write the logs of an archive that are not there; how many, and their bytes together."""
    count = size = 0
    if not data:
        return 0, 0
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = (folder / member.name).resolve()
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or not path.is_relative_to(folder.resolve() / sessions.LOGS):
                continue
            if path.exists() and path.stat().st_size >= member.size:
                continue
            make_private(path.parent)
            write_atomic(path, content.read())
            count, size = count + 1, size + member.size
    return count, size
