"""A Slurm of two nodes on this machine, in a separate folder: slurmctld, two slurmd and munged, on free ports."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import psutil

from tests.patience import wait_until

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scontrol")
_PATIENCE_S = 240.0
_CONF = """\
ClusterName=gmg
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
KillWait=5
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 RealMemory=4000 Gres=gpu:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 RealMemory=4000 Gres=gpu:4
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._conf = str(folder / "slurm.conf")
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(_CONF.format(host=host, folder=folder, ports=_ports(3)))
        (folder / "gres.conf").write_text(f"NodeName=n[1-2] Name=gpu File={folder}/gpu[0-3]\n")
        for name in ("state", "n1", "n2", "munge"):
            (folder / name).mkdir()

    def start(self) -> None:
        """Start the daemons, and wait until both nodes are idle and run something.

        Raises what a machine makes of it that does not allow all of this.
        """
        folder, key = self.folder, self.folder / "munge.key"
        for number in range(4):
            self._run("mknod", str(folder / f"gpu{number}"), "c", "1", "3")  # any device will do
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for path in (folder, folder / "munge", key):
            shutil.chown(path, "munge", "munge")
        folder.chmod(0o755)
        drop = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups")
        files = [f"--{name}-file={folder}/munge/{name}" for name in ("pid", "log", "seed")]
        self._run(*drop, "munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", *files)
        self._run("slurmctld", "-c", "-f", self._conf)
        for node in ("n1", "n2"):
            self._run("slurmd", "-N", node, "-f", self._conf)
        wait_until(lambda: self.ask("sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"])
        assert self.ask("srun", "--ntasks=1", "echo", "up") == "up\n", "srun runs nothing"

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": self._conf}

    def ask(self, *command: str) -> str:
        return self.run(*command).stdout

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=self._env, check=True, capture_output=True, timeout=_PATIENCE_S)

    def kill(self, node: str) -> None:
        """Kills the slurmd of a node; the processes that it has started keep running."""
        pid = int((self.folder / f"{node}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=30)

    def revive(self, node: str) -> None:
        """Start the slurmd of a node again, and wait until the node is up.

        It would be up by itself once its slurmd answers; but after a job has lost it, slurmctld (22.05.8) counts it as
        one that still completes that job, and starts nothing on it that had to wait, until it builds its tables anew.
        """
        self._run("slurmd", "-N", node, "-f", self._conf)
        self.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.ask("scontrol", "reconfigure")
        wait_until(lambda: self.ask("sinfo", "-h", "-n", node, "-o", "%t").strip() in ("idle", "alloc", "mix"))

    def stop(self) -> None:
        """Ends all jobs, then the daemons, which a job's own daemon would try to reach forever."""
        self.ask("scancel", "-u", "root")
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.ask("squeue", "-h").strip())
        daemons = [
            process
            for process in psutil.process_iter(["cmdline"])
            if str(self.folder) in " ".join(process.info["cmdline"] or ())
            and (process.info["cmdline"] or [""])[0].endswith(NEEDED[:3])
        ]
        for process in daemons:
            process.terminate()
        _, alive = psutil.wait_procs(daemons, timeout=30)
        for process in alive:
            process.kill()


def _ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def missing() -> str | None:
    """Returns the reason that no Slurm can be started here, or None."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    return None if os.geteuid() == 0 else "its daemons need root"
