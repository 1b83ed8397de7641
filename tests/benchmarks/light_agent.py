"""Stands in for ssh and for the agent at its other end: eight simulated GPUs, and workers without processes.

`GMG_SSH="python light_agent.py"`. A worker runs until it is stopped; its figures change each second.
"""

import asyncio
import json
import sys
import time

import msgspec

import gmg_tui
from gmg_tui import model
from gmg_tui.engine.attempts.attempt import Outcome, StopCause
from gmg_tui.engine.nodes import states
from gmg_tui.model import Attempt, Fps, Gpu, GpuSample, Phase, RunSpec, Session, Slot, Snapshot, WorkerState
from gmg_tui.session import AGENT_MARK, protocol

CARDS = 8


def _report(slot: str, assignment: states.Assignment, began: float) -> states.SlotReport:
    task, elapsed_s = assignment.task, time.time() - began
    state = WorkerState.STOPPED if assignment.stop else WorkerState.RUNNING
    rate = 24e6 + 1e3 * (int(time.time() * 7) % 1000)
    view = model.Worker(
        slot,
        0,
        state,
        began,
        Phase.RUNNING if state.live else Phase.NONE,
        newest=Attempt(
            task.first_attempt,
            task.args,
            4242,
            began,
            time.time() if state.ended else None,
            0 if state.ended else None,
            state,
            fps=Fps(rate, rate, rate, int(20 * elapsed_s), rate),
            n_envs=4096,
            printed_envs=4096,
            had_progress=True,
            gpu_index=0,
        ),
        last_line=f"Running at {rate:,.2f} FPS (5,862.56 FPS per env, 4096 envs).",
        log_lines=int(20 * elapsed_s),
        cpu_pct=100.0,
        memory_rss_mib=4000.0,
    )
    outcome = Outcome(cause=StopCause.COMMAND) if state.ended else None
    return states.SlotReport.from_attempt(states.AttemptReport(assignment.key, view, outcome=outcome), {}, {})


class Agent:
    """Serves a session's engine on standard input and output."""

    def __init__(self, spec: RunSpec, writer: asyncio.StreamWriter) -> None:
        node = spec.agent.node
        self._gpus = [Gpu(i, f"GPU-{node}-{i}", "NVIDIA H100 80GB HBM3", memory_total_mib=81559) for i in range(CARDS)]
        self._slots = tuple(Slot(f"{node}/gpu{gpu.index}", gpu, node) for gpu in self._gpus)
        self._spec, self._writer = spec, writer
        self._workers: dict[str, tuple[states.Assignment, float]] = {}

    def _send(self, message: protocol.Message) -> None:
        self._writer.write(protocol.frame(message))

    def _snapshot(self) -> Snapshot:
        now = time.time()
        metrics = {
            "gpu_util_pct": 97.0,
            "memory_used_mib": 30000.0 + now % 100,
            "memory_total_mib": 81559.0,
            "memory_free_mib": 51000.0,
            "power_w": 600 + now % 50,
            "power_limit_w": 700.0,
            "temperature_c": 60.0,
            "sm_clock_mhz": 1980.0,
        }
        return Snapshot(
            now, 0.0, (), tuple(msgspec.convert({"uuid": g.uuid, **metrics}, GpuSample) for g in self._gpus)
        )

    async def report(self) -> None:
        """Send all workers and samples each second."""
        while True:
            await asyncio.sleep(1.0)
            reports = {slot: _report(slot, *worker) for slot, worker in self._workers.items()}
            self._send(protocol.Update(self._snapshot()))
            self._send(protocol.SlotReports(msgspec.Raw(msgspec.msgpack.encode(states.Report(reports)))))

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer requests until the session ends."""
        while True:
            match await protocol.read_request(reader):
                case protocol.Hello():
                    session = Session(self._spec, self._slots, 1, time.time(), gmg_tui.__version__)
                    self._send(protocol.Welcome(session, self._snapshot(), ()))
                case protocol.Numbered(id=number, request=protocol.SetSlot(slot=slot, assignment=encoded)):
                    assignment = msgspec.msgpack.decode(encoded, type=states.Assignment | None)
                    if assignment is None:
                        self._workers.pop(slot, None)
                    else:
                        worker, began = self._workers.get(slot, (None, 0.0))
                        same = worker is not None and worker.key == assignment.key
                        self._workers[slot] = (assignment, began if same else time.time())
                    self._send(protocol.Answer(number))
                case protocol.Numbered(id=number, request=protocol.End()):
                    self._send(protocol.Answer(number))
                    self._send(protocol.Bye("ended"))
                    await self._writer.drain()
                    return


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, proto = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, proto, None, loop)
    agent = Agent(msgspec.json.decode(await reader.readline(), type=RunSpec), writer)
    writer.write(f"{AGENT_MARK}{json.dumps({'ok': True})}\n".encode())
    reporting = loop.create_task(agent.report())
    try:
        await agent.serve(reader)
    except (EOFError, OSError):
        return
    finally:
        reporting.cancel()


if __name__ == "__main__":
    asyncio.run(main())
