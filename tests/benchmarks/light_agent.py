"""Stands in for ssh and for the agent at its other end: eight simulated cards, and workers that are numbers alone.

`GMG_SSH="python light_agent.py"`, with the host as the last word but one. A worker runs for as long as its argument
`--s` says, else for ever; its figures change each second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import msgspec
from msgspec import structs

import gmg_tui
from gmg_tui import model, protocol
from gmg_tui.engine.nodes import states
from gmg_tui.engine.workers.member import Outcome
from gmg_tui.model import (
    Attempt,
    Fps,
    Gpu,
    GpuSample,
    Phase,
    RunSpec,
    Session,
    Slot,
    SlotKind,
    Snapshot,
    WorkerState,
)
from gmg_tui.session import AGENT_MARK

CARDS = 8


class Light:
    """One worker."""

    def __init__(self, slot: str, order: states.Assignment) -> None:
        self.slot, self.order = slot, order
        self.began = time.time()
        words = order.task.args
        self._for_s = float(words[words.index("--s") + 1]) if "--s" in words else None

    def report(self, now: float) -> states.WorkerReport:
        """It at this moment, Unix seconds."""
        task, elapsed_s = self.order.task, now - self.began
        over = self._for_s is not None and elapsed_s >= self._for_s
        running = WorkerState.STOPPED if self.order.stop else WorkerState.FINISHED if over else WorkerState.RUNNING
        rate = 24e6 + 1e3 * (int(now * 7) % 1000)
        fps = Fps(rate, rate, rate, int(20 * elapsed_s), rate)
        figures: dict[str, Any] = {
            "fps": fps,
            "n_envs": 4096,
            "printed_envs": 4096,
            "had_progress": True,
            "gpu_index": 0,
        }
        record = Attempt(task.first_attempt, task.args, 4242, self.began, None, None, running, **figures)
        if running.ended:
            record = structs.replace(record, ended=now, exit_code=0)
        view = model.Worker(
            self.slot,
            0,
            running,
            self.began,
            Phase.RUNNING if running.live else Phase.NONE,
            current=record,
            job=task.job,
            job_name=task.name,
            last_line=f"Running at {rate:,.2f} FPS (5,862.56 FPS per env, 4096 envs).",
            log_lines=int(20 * elapsed_s),
            cpu_pct=100.0,
            memory_rss_mib=4000.0,
        )
        outcome = Outcome(by_user=running is WorkerState.STOPPED) if running.ended else None
        return states.WorkerReport(self.order.key, self.order.serial, view, outcome=outcome)


class Agent:
    """Speaks on standard input and output."""

    def __init__(self, spec: RunSpec, writer: asyncio.StreamWriter) -> None:
        assert spec.agent is not None
        node = spec.agent.node
        cards = [Gpu(i, f"GPU-{node}-{i}", "NVIDIA H100 80GB HBM3", memory_total_mib=81559) for i in range(CARDS)]
        self.slots = tuple(Slot(f"{node}/gpu{card.index}", SlotKind.GPU, card, node) for card in cards)
        self.spec, self.writer = spec, writer
        self.workers: dict[str, Light] = {}

    def say(self, message: protocol.Message) -> None:
        """Send it."""
        self.writer.write(protocol.frame(message))

    def snapshot(self) -> Snapshot:
        """The cards at this moment."""
        now = time.time()
        samples = [
            GpuSample(
                slot.gpu.uuid,
                gpu_util_pct=97.0,
                memory_used_mib=30000.0 + now % 100,
                memory_total_mib=81559.0,
                memory_free_mib=51000.0,
                power_w=600 + now % 50,
                power_limit_w=700.0,
                temperature_c=60.0,
                sm_clock_mhz=1980.0,
            )
            for slot in self.slots
            if slot.gpu is not None
        ]
        return Snapshot(now, 0.0, (), tuple(samples))

    def report(self) -> None:
        """Say how all is."""
        now = time.time()
        reports = tuple(worker.report(now) for worker in self.workers.values())
        self.say(protocol.Update(self.snapshot()))
        self.say(protocol.SlotReports(msgspec.Raw(msgspec.msgpack.encode(states.Report(reports)))))

    def take(self, request: protocol.SetSlot) -> None:
        """Run what the session's engine assigns."""
        assigned = msgspec.msgpack.decode(request.assignment, type=states.Assignment | None)
        known = self.workers.get(request.slot)
        if assigned is None:
            self.workers.pop(request.slot, None)
        elif known is not None and (known.order.key, known.order.serial) == (assigned.key, assigned.serial):
            known.order = assigned
        else:
            self.workers[request.slot] = Light(request.slot, assigned)
        self.say(protocol.Answer(request.id))


async def main() -> None:
    """Serve until the engine goes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, proto = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, proto, None, loop)
    agent = Agent(msgspec.json.decode(await reader.readline(), type=RunSpec), writer)
    writer.write(f"{AGENT_MARK}{json.dumps({'ok': True})}\n".encode())
    ticking: asyncio.Task[Any] | None = None
    while True:
        try:
            request = await protocol.read_request(reader)
        except (EOFError, OSError):
            return
        match request:
            case protocol.Hello():
                sweep = agent.spec.sweep
                names = tuple(slot.name for slot in agent.slots)
                allowed = tuple(names for _ in sweep.batches) if sweep is not None else ()
                session = Session(agent.spec, agent.slots, 1, time.time(), gmg_tui.__version__, allowed=allowed)
                agent.say(protocol.Welcome(protocol.VERSION, session, agent.snapshot(), ()))
                ticking = loop.create_task(_tick(agent))
            case protocol.SetSlot():
                agent.take(request)
            case protocol.End(id=number):
                agent.say(protocol.Answer(number))
                agent.say(protocol.Bye("ended"))
                await writer.drain()
                if ticking is not None:
                    ticking.cancel()
                return


async def _tick(agent: Agent) -> None:
    while True:
        await asyncio.sleep(1.0)
        agent.report()


if __name__ == "__main__":
    asyncio.run(main())
