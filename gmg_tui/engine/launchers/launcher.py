"""Launchers list the nodes and run, for each, a program that connects its own standard streams to the node's agent."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Sequence
from typing import Any

import msgspec

from gmg_tui.engine.launchers.agent_script import AGENT_COMMAND, agent_script
from gmg_tui.machine import slurm as allocation
from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean, one_line
from gmg_tui.session import AGENT_MARK

_MAX_GREETING_BYTES = 1 << 20
"""Limit on the output before an agent's answer."""
_ERROR_CHUNK_BYTES, _ERROR_PAUSE_S = 1 << 16, 0.05
_END_TIMEOUT_S = 2.0
MAX_TROUBLE_BYTES = 1000
_MAX_LOCAL_NODES = 4096


class Connection:
    """A program connected to a node's agent; it reads from `writer` and writes to `reader`.

    Attributes:
        trouble: The last line of the program's standard error; empty before the first.
    """

    def __init__(self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._transport = process, transport
        self.reader, self.writer = process.stdout, process.stdin
        self.trouble = ""
        self._reading_errors = asyncio.create_task(self._read_errors(process.stderr))

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        line = b""  # the last one, perhaps not complete
        while chunk := await stream.read(_ERROR_CHUNK_BYTES):
            *lines, line = (line[:MAX_TROUBLE_BYTES] + chunk).split(b"\n")
            texts = (clean(each[:MAX_TROUBLE_BYTES].strip()) for each in (line, *reversed(lines)))
            self.trouble = next(filter(None, texts), self.trouble)
            if len(chunk) == _ERROR_CHUNK_BYTES:  # a flood must not take the engine's time
                await asyncio.sleep(_ERROR_PAUSE_S)

    async def greet(self, agent_spec: bytes) -> dict[str, Any]:
        """Sends the agent's spec and waits for its answer. Raises `GmgError`, `OSError` or `EOFError`."""
        self.writer.write(agent_spec + b"\n")
        await self.writer.drain()
        mark, noise_bytes = AGENT_MARK.encode(), 0
        try:
            while line := await self.reader.readline():  # a shell may print something first
                if line.startswith(mark):
                    answer = msgspec.json.decode(line[len(mark) :], type=dict[str, Any])
                    if answer.get("ok"):
                        return answer
                    raise GmgError(one_line(str(answer.get("error"))[:MAX_TROUBLE_BYTES]), 1)
                noise_bytes += len(line)
                if noise_bytes > _MAX_GREETING_BYTES:
                    raise ValueError
        except (ValueError, RecursionError):  # a line over the limit, or not JSON
            raise GmgError("its output is not an agent's answer", 1) from None
        raise EOFError("the connection was closed before its agent answered")

    def kill(self) -> None:
        """Kills the program. The agent keeps running."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Ends the program, and waits for its end and the rest of its error output. The agent keeps running."""
        self.writer.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await self._process.wait()
        finally:
            self.kill()
            # `wait` returns once all output is read, but a child may keep the pipe open.
            draining = [asyncio.create_task(work) for work in (self._process.wait(), self._drain())]
            await asyncio.wait([*draining, self._reading_errors], timeout=_END_TIMEOUT_S)
            for task in (*draining, self._reading_errors):
                task.cancel()
            self._transport.close()

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while await self.reader.read(_MAX_GREETING_BYTES):
                pass


class Launcher(ABC):
    """Lists the nodes of a session, and connects to their agents."""

    @abstractmethod
    async def list_nodes(self) -> tuple[str, ...]:
        """Returns the nodes' unique names. Raises `GmgError` if they cannot be listed."""

    @abstractmethod
    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs `AGENT_COMMAND` or `agent_script` on a node."""

    async def connect(self, node: str) -> Connection:
        """Runs the command for a node, and returns the connection. Raises `GmgError` if the command cannot be run."""
        command, loop = self.command(node), asyncio.get_running_loop()
        try:
            # Like `create_subprocess_exec`, but keeps the transport, which can close pipes held open by others.
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(_MAX_GREETING_BYTES, loop),
                *command,
                start_new_session=True,  # ctrl+c is for the engine
            )
        except (OSError, RuntimeError) as error:  # `RuntimeError`: no thread can be started
            raise GmgError(f"cannot run {command[0]}: {getattr(error, 'strerror', error)}", 1) from error
        return Connection(asyncio.subprocess.Process(transport, protocol, loop), transport)

    async def unreachable_reason(self) -> str | None:
        """Returns the reason no node can be reached any more, such as the job's end; None if some can. Never raises."""
        return None


class Local(Launcher):
    """A number of agents on this machine, for tests and simulations."""

    def __init__(self, where: str) -> None:
        self._count = units.natural(where) or 0
        if not 1 <= self._count <= _MAX_LOCAL_NODES:
            raise GmgError(f"--nodes local:{where}: give the number of agents to start on this machine, as in local:2")

    async def list_nodes(self) -> tuple[str, ...]:
        """Returns `n1`, `n2` and so on."""
        return tuple(f"n{number}" for number in range(1, self._count + 1))

    def command(self, node: str) -> Sequence[str]:
        """Returns the agent's command; a simulated driver shows different GPUs for each `GMG_NODE`."""
        return ("env", f"GMG_NODE={node}", *AGENT_COMMAND)


_HOST = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9._:-]*")
_SSH_OPTIONS = (
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    # Tolerate a network that stalls for a minute; notice a lost one after three.
    *("-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=6"),
    "-T",
)
_CLIENT_VARIABLE = "GMG_SSH"
"""Environment variable that sets another SSH client or its options, as in `GMG_SSH="ssh -F config"`."""


class Ssh(Launcher):
    """The hosts listed in `where`: `--nodes ssh:a,b`.

    OpenSSH's client reads its own configuration, so aliases in `~/.ssh/config` work. It never asks for a password: a
    session that starts sixteen agents cannot ask sixteen times (ssh_config(5), `BatchMode`).
    """

    def __init__(self, where: str) -> None:
        self._hosts = {_node_name(host): host for host in _parse_hosts(where)}
        self._client = shlex.split(os.environ.get(_CLIENT_VARIABLE, "ssh"))

    async def list_nodes(self) -> tuple[str, ...]:
        """Returns the hosts, without their users and with `:` replaced by `-`."""
        return tuple(self._hosts)

    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs the agent on the host."""
        # The login shell may be fish or csh, which do not understand the syntax of `sh`. They quote differently, too: nothing
        # that another user can name, such as the current folder, may be in the command.
        return (*self._client, *_SSH_OPTIONS, "--", self._hosts[node], f"exec /bin/sh -c {shlex.quote(agent_script())}")


def _node_name(host: str) -> str:
    return host.rpartition("@")[2].replace(":", "-")


def _parse_hosts(where: str) -> tuple[str, ...]:
    hosts = tuple(host.strip() for host in where.split(",") if host.strip())
    if not hosts:
        raise GmgError(f"--nodes ssh:{where}: give hosts, as in ssh:a,b")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise GmgError(f"--nodes ssh:{where}: {host!r} is not a host")
        if sum(_node_name(host).casefold() == _node_name(other).casefold() for other in hosts) > 1:
            raise GmgError(f"--nodes ssh:{where}: {host} is named twice; one agent runs all slots of a host")
    return hosts


_STEP_VARIABLE_PREFIXES = (
    "SLURM_STEP_",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
)
"""Prefixes of the variables that Slurm sets if gmg-tui itself runs in a step: srun would read them as options."""
_LIVE_JOB_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
"""States of a job that has not ended (squeue(1), "JOB STATE CODES")."""
_CACHE_TTL_S = 5.0
"""Seconds to cache Slurm's answer about the job, which is the same for all nodes."""


class Slurm(Launcher):
    """The nodes of the Slurm job that this process runs in, started by salloc or sbatch: `--nodes slurm`.

    Each agent has its own step (`srun --overlap`), because srun merges the output of a step's tasks. The step has all
    GPUs, cores and memory of its node, and shares them with other steps (srun(1), `--overlap`, `--mem`).
    """

    def __init__(self) -> None:
        self._job = allocation.job_of(os.environ)
        if self._job is None:
            raise GmgError("--nodes slurm: this is not a Slurm job; use salloc or sbatch")
        if shutil.which("srun") is None:
            raise GmgError("--nodes slurm: there is no srun here")
        self._checked_at = -_CACHE_TTL_S
        self._end_reason: str | None = None

    async def list_nodes(self) -> tuple[str, ...]:
        """Returns Slurm's node names, without duplicates. Raises `GmgError`."""
        names = os.environ.get("SLURM_JOB_NODELIST", "")
        status, hostnames, trouble = await allocation.run("scontrol", "show", "hostnames", names)
        if status != 0:
            raise GmgError(f"--nodes slurm: {trouble}", 1)
        return tuple(dict.fromkeys(hostnames.split()))

    async def unreachable_reason(self) -> str | None:
        """Returns the job's end as the reason; None if it has not ended, or if Slurm does not answer."""
        if time.monotonic() - self._checked_at >= _CACHE_TTL_S:
            self._checked_at = time.monotonic()
            squeue = ("squeue", "--noheader", "--format=%T", "--jobs", str(self._job))
            status, state, trouble = await allocation.run(*squeue)
            no_answer = status != 0 and "Invalid job id" not in trouble
            ended = f"Slurm job {self._job} {f'is {state.lower()}' if state else 'has ended'}"
            self._end_reason = None if no_answer or state in _LIVE_JOB_STATES else ended
        return self._end_reason

    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs the agent as a step on the node."""
        step = ("--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mem=0", "--kill-on-bad-exit=0")
        count = os.environ.get("SLURM_GPUS_ON_NODE", "")
        gpus = (f"--gpus-per-node={count}",) if count.isdecimal() else ()
        inherited = [f"--unset={name}" for name in os.environ if name.startswith(_STEP_VARIABLE_PREFIXES)]
        return (
            "env",
            *inherited,
            "srun",
            f"--jobid={self._job}",
            *step,
            *gpus,
            "--export=ALL",
            "--quiet",
            "/bin/sh",
            "-c",
            agent_script(),
        )
