"""A rank without torch: meets the others at MASTER_PORT, steps with them, and does harm on request.

Prints Genesis' own lines, or with `--rsl` rank 0's table of rsl_rl. Only the standard library is used, as a worker's
interpreter may have nothing else.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    *("CUDA_VISIBLE_DEVICES", "GMG_ATTEMPT", "GMG_SLOT"),
)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step-s", type=float, default=0.05)
    parser.add_argument("--rsl", action="store_true", help="rank 0 prints rsl_rl's tables, the others nothing")
    parser.add_argument("--tell", help="a folder into which each rank writes its variables")
    parser.add_argument("--rank", type=int, default=1, help="the rank that does the harm")
    parser.add_argument("--die", choices=("before", "middle", "kill"))
    parser.add_argument("--until", type=int, default=1, help="the last attempt that does the harm")
    parser.add_argument(
        "--hang",
        nargs="?",
        const="stop",
        choices=("stop", "sleep", "build", "start"),
        help="hang in the middle or at the start: stopped by a signal, asleep, or at work on another scene",
    )
    parser.add_argument("--cuda", action="store_true", help="fail when the simulated driver has lost the rank's card")
    parser.add_argument("--error-file", action="store_true", help="write error.json, as @record does")
    parser.add_argument("--deaf", action="store_true", help="ignore SIGINT and SIGTERM, as ranks in a collective do")
    return parser.parse_args()


def meet(rank: int, size: int) -> list[socket.socket]:
    """Rank 0's connections to all others; the others' to rank 0."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(address) as server:
            return [server.accept()[0] for _ in range(size - 1)]
    while True:
        try:
            return [socket.create_connection(address)]
        except ConnectionRefusedError:
            time.sleep(0.02)


def step(peers: list[socket.socket], rank: int) -> None:
    """A collective: rank 0 waits for a byte of all, and answers. A peer that has died closes or resets its connection."""
    try:
        for peer in peers:
            if rank > 0:
                peer.sendall(b".")
            if not peer.recv(1):
                raise ConnectionResetError
            if rank == 0:
                peer.sendall(b".")
    except ConnectionError:
        raise RuntimeError("Connection closed by peer [127.0.0.1]:1234") from None


def harm(arguments: argparse.Namespace, moment: str) -> None:
    """Die or hang here, if that is what this rank is to do in this attempt."""
    mine = int(os.environ["RANK"]) == arguments.rank and int(os.environ["GMG_ATTEMPT"]) <= arguments.until
    if not mine:
        return
    if arguments.hang == "stop" and moment == "middle":
        os.kill(os.getpid(), signal.SIGSTOP)
    if arguments.hang == "build" and moment == "middle":
        print("[Genesis] [12:00:00] [INFO] Building scene <gs.Scene>...", flush=True)
    while arguments.hang == "build" and moment == "middle":
        pass
    if (arguments.hang, moment) in (("sleep", "middle"), ("start", "before")):
        time.sleep(3600)
    if arguments.die == moment:
        raise ValueError(f"rank {arguments.rank} dies here")
    if arguments.die == "kill" and moment == "middle":
        os.kill(os.getpid(), signal.SIGKILL)


def check_card() -> None:
    """Fail as a call of CUDA does, if the simulated driver has lost this rank's card."""
    index = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[int(os.environ["LOCAL_RANK"])])
    card = Path(os.environ["GMG_NVML_SIM"]).read_text().split("\ngpu\n")[1 + index].splitlines()
    if "lost 1" in card:
        raise RuntimeError("CUDA error: unspecified launch failure")


def say(arguments: argparse.Namespace, rank: int, number: int) -> None:
    if not arguments.rsl:
        print(f"[Genesis] [12:00:00] [INFO] Running at {1000 + 100 * rank:,.2f} FPS (10.00 FPS per env, 100 envs).")
    elif rank == 0:
        print(
            f"Learning iteration {number}/{arguments.steps}\nComputation: 5000 steps/s (collection: 0.010s, learning 0.010s)\nTotal timesteps: {number * 100}"
        )
    sys.stdout.flush()


def main() -> None:
    arguments = options()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if arguments.deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.tell:
        environ = {name: os.environ.get(name) for name in NAMES}
        Path(arguments.tell, f"{rank}-{os.environ['GMG_ATTEMPT']}.json").write_text(json.dumps(environ))
    harm(arguments, "before")
    peers = meet(rank, size)
    for number in range(arguments.steps):
        step(peers, rank)
        if arguments.cuda:
            check_card()
        say(arguments, rank, number)
        if number == arguments.steps // 2:
            harm(arguments, "middle")
        time.sleep(arguments.step_s)


def recorded() -> None:
    """Run `main`, and write an exception where `torch.distributed.elastic`'s `@record` would."""
    try:
        main()
    except Exception as error:
        if "--error-file" in sys.argv:
            extra = {"py_callstack": "Traceback …", "timestamp": str(int(time.time()))}
            content = {"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}}
            Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(json.dumps(content))
            os._exit(1)
        raise


if __name__ == "__main__":
    recorded()
