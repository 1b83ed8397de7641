"""Launchers name the nodes, and start a program for each that connects its standard streams to an agent."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import gmg_tui
from gmg_tui.machine import slurm as allocation
from gmg_tui.machine.folders import owner_names, owners
from gmg_tui.model import units
from gmg_tui.model.errors import GmgError
from gmg_tui.model.text import clean, one_line
from gmg_tui.session import AGENT_MARK

PROGRAM = (sys.executable, "-P", "-m", "gmg_tui", "agent")
"""Starts or finds the node's agent."""
_MAX_GREETING_BYTES = 1 << 20
"""Limit of output before the connection carries frames."""
_END_TIMEOUT_S = 2.0
MAX_TROUBLE_BYTES = 1000
_MAX_LOCAL_NODES = 4096


def script() -> str:
    """Returns the lines for `sh` on a node that run `PROGRAM`, or the node's own gmg-tui.

    That is if the interpreter is missing there, or if others than here could have made it or this package.
    """
    python, way = shlex.quote(PROGRAM[0]), list(owners(PROGRAM[0], gmg_tui.__file__))
    others = "".join(f"|*' '{shlex.quote(name)}" for name in owner_names(way))
    return (
        f"me=$(id -u); p=$(readlink -f {python}); [ -x {python} ] || exec gmg-tui agent; "
        f'own() {{ case $(stat -c "%u %U" "$1") in "0 "*|"$me "*{others}) ;; *) exec gmg-tui agent;; esac; }}; '
        f'for q in {shlex.join(str(at) for at, _ in way)}; do if [ -e "$q" ] || [ -L "$q" ]; then own "$q"; fi; done; '
        f'while [ "$p" != / ]; do own "$p"; p=$(dirname "$p"); done; exec {shlex.join(PROGRAM)}'
    )


class Connection:
    """A program connected to a node's agent, written to by `writer` and read by `reader`.

    Attributes:
        trouble: The last line of its standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._transport = process, transport
        self.reader, self.writer = process.stdout, process.stdin
        self.trouble = ""
        self._reading = asyncio.create_task(self._read_errors(process.stderr))

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit
                continue
            if not line:
                return
            self.trouble = clean(line[:MAX_TROUBLE_BYTES].strip()) or self.trouble

    async def greet(self, order: bytes) -> dict[str, Any]:
        """Sends the agent's spec and waits for its answer. Raises `GmgError`, `OSError` or `EOFError`."""
        self.writer.write(order + b"\n")
        await self.writer.drain()
        mark, noise = AGENT_MARK.encode(), 0
        try:
            while line := await self.reader.readline():  # a shell may print anything first
                if line.startswith(mark):
                    answer = msgspec.json.decode(line[len(mark) :], type=dict[str, Any])
                    if answer.get("ok"):
                        return answer
                    raise GmgError(one_line(str(answer.get("error"))[:MAX_TROUBLE_BYTES]), 1)
                noise += len(line)
                if noise > _MAX_GREETING_BYTES:
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
            # For asyncio it ends once its output is read, but a child may hold that open.
            draining = [asyncio.create_task(each) for each in (self._process.wait(), self._drain())]
            await asyncio.wait([*draining, self._reading], timeout=_END_TIMEOUT_S)
            for task in (*draining, self._reading):
                task.cancel()
            self._transport.close()

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while await self.reader.read(_MAX_GREETING_BYTES):
                pass


class Launcher(ABC):
    """Starts the agents of a session's nodes."""

    @abstractmethod
    async def nodes(self) -> tuple[str, ...]:
        """Returns the nodes' unique names. Raises `GmgError` if they cannot be listed or there are none."""

    @abstractmethod
    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs `PROGRAM`, or `script`, on a node."""

    async def connect(self, node: str) -> Connection:
        """Runs the command. Raises `GmgError` if it cannot be run."""
        command, loop = self.command(node), asyncio.get_running_loop()
        try:
            # Like `create_subprocess_exec`, but keeps the transport, which can close pipes held open by others.
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(_MAX_GREETING_BYTES, loop),
                *command,
                start_new_session=True,  # ctrl+c is for the engine
            )
        except (OSError, RuntimeError) as error:  # or no thread can be started
            raise GmgError(f"cannot run {command[0]}: {getattr(error, 'strerror', error)}", 1) from error
        return Connection(asyncio.subprocess.Process(transport, protocol, loop), transport)

    async def unreachable(self) -> str | None:
        """Returns why no node can be reached any more, such as the job's end; None if one may be. Never raises."""
        return None


class Local(Launcher):
    """A number of agents on this machine, for tests and simulations."""

    def __init__(self, where: str) -> None:
        self._count = units.natural(where) or 0
        if not 1 <= self._count <= _MAX_LOCAL_NODES:
            raise GmgError(f"--nodes local:{where}: give how many agents to start on this machine, as in local:2")

    async def nodes(self) -> tuple[str, ...]:
        """Returns `n1`, `n2` and so on."""
        return tuple(f"n{number}" for number in range(1, self._count + 1))

    def command(self, node: str) -> Sequence[str]:
        """Returns this program; a simulated driver shows different GPUs for each node."""
        return ("env", f"GMG_NODE={node}", *PROGRAM)


_HOST = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9._:-]*")
_OPTIONS = (
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    # Tolerate a network that stalls for a minute; notice a lost one after three.
    *("-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=6"),
    "-T",
)
COMMAND = "GMG_SSH"
"""Variable with another client and its options: `GMG_SSH="ssh -F config"`."""


class Ssh(Launcher):
    """The hosts listed in `where`: `--nodes ssh:a,b`.

    OpenSSH's client reads its own configuration, so that a host is whatever `~/.ssh/config` makes of its name. It is not
    asked for a password: a session that starts sixteen agents cannot ask sixteen times (ssh_config(5), `BatchMode`).
    """

    def __init__(self, where: str) -> None:
        self._hosts = {_name(host): host for host in _hosts(where)}
        self._client = shlex.split(os.environ.get(COMMAND, "ssh"))

    async def nodes(self) -> tuple[str, ...]:
        """Returns the hosts, without their users and with `-` for `:`."""
        return tuple(self._hosts)

    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs this program in this folder."""
        there = f"cd {shlex.quote(str(Path.cwd()))} 2>/dev/null; {script()}"
        # The login shell may be fish or csh, which lack `if … then`.
        return (*self._client, *_OPTIONS, "--", self._hosts[node], f"exec sh -c {shlex.quote(there)}")


def _name(host: str) -> str:
    return host.rpartition("@")[2].replace(":", "-")


def _hosts(where: str) -> tuple[str, ...]:
    hosts = tuple(host.strip() for host in where.split(",") if host.strip())
    if not hosts:
        raise GmgError(f"--nodes ssh:{where}: give hosts, as in ssh:a,b")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise GmgError(f"--nodes ssh:{where}: {host!r} is not a host")
        if sum(_name(host).casefold() == _name(other).casefold() for other in hosts) > 1:
            raise GmgError(f"--nodes ssh:{where}: {host} is named twice; one agent runs all slots of a host")
    return hosts


_STEP_VARIABLES = (
    "SLURM_STEP_",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
)
"""Variables of the step that gmg-tui may run in; srun would read them as options."""
_LIVE_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
"""Live states of a job (squeue(1), "JOB STATE CODES")."""
_CACHE_TTL_S = 5.0
"""Seconds to cache Slurm's answer about the job, which is the same for all nodes."""


class Slurm(Launcher):
    """The nodes of the Slurm job that this process runs in, by salloc or sbatch: `--nodes slurm`.

    Each agent is a step of its own (`srun --overlap`), for srun joins the output of all tasks of a step into one. The step
    has all GPUs, cores and memory of its node, and shares them with the others (srun(1), `--overlap`, `--mem`).
    """

    def __init__(self) -> None:
        self._job = allocation.job_of(os.environ)
        if self._job is None:
            raise GmgError("--nodes slurm: this is not a Slurm job; use salloc or sbatch")
        if shutil.which("srun") is None:
            raise GmgError("--nodes slurm: there is no srun here")
        self._asked_at = -_CACHE_TTL_S
        self._gone: str | None = None

    async def nodes(self) -> tuple[str, ...]:
        """Returns Slurm's node names; a node listed twice still gets one agent. Raises `GmgError`."""
        names = os.environ.get("SLURM_JOB_NODELIST", "")
        status, hostnames, trouble = await allocation.run("scontrol", "show", "hostnames", names)
        if status != 0:
            raise GmgError(f"--nodes slurm: {trouble}", 1)
        return tuple(dict.fromkeys(hostnames.split()))

    async def unreachable(self) -> str | None:
        """Returns the reason if the job has ended or been requeued."""
        if time.monotonic() - self._asked_at >= _CACHE_TTL_S:
            self._asked_at = time.monotonic()
            squeue = ("squeue", "--noheader", "--format=%T", "--jobs", str(self._job))
            status, state, trouble = await allocation.run(*squeue)
            unknown = status != 0 and "Invalid job id" not in trouble  # Slurm does not answer
            ended = f"Slurm job {self._job} {f'is {state.lower()}' if state else 'has ended'}"
            self._gone = None if unknown or state in _LIVE_STATES else ended
        return self._gone

    def command(self, node: str) -> Sequence[str]:
        """Returns the command of a step on the node."""
        step = ("--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mem=0", "--kill-on-bad-exit=0")
        count = os.environ.get("SLURM_GPUS_ON_NODE", "")
        gpus = (f"--gpus-per-node={count}",) if count.isdecimal() else ()
        inherited = [f"--unset={name}" for name in os.environ if name.startswith(_STEP_VARIABLES)]
        return (
            "env",
            *inherited,
            "srun",
            f"--jobid={self._job}",
            *step,
            *gpus,
            "--export=ALL",
            "--quiet",
            "sh",
            "-c",
            script(),
        )
