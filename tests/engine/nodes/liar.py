"""A node's agent that lies: `liar.py KIND HOST COMMAND`, in the place of ssh. On hosts but `evil` it runs the command."""

import math
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator

import msgspec
from msgspec import structs

from gmg_tui.engine.nodes.states import Assignment, AttemptReport, Report, SlotReport
from gmg_tui.model import (
    NO_ATTEMPT,
    Alert,
    Checkpoint,
    Curve,
    Fps,
    Gpu,
    GpuSample,
    HotSpot,
    Point,
    Progress,
    RunSpec,
    Session,
    Severity,
    Slot,
    Snapshot,
    SpeedFacts,
    Worker,
    WorkerState,
)
from gmg_tui.session import AGENT_MARK, protocol
from gmg_tui.session.protocol import (
    Answer,
    Ask,
    Command,
    End,
    Lines,
    Message,
    Numbered,
    Question,
    Request,
    SetSlot,
    SlotReports,
    Topic,
    Update,
    Welcome,
)

kind, host, command = sys.argv[1], sys.argv[-2], sys.argv[-1]
assigned: dict[str, Assignment] = {}
FAR = 253_402_000_000.0
"""In the year 9999."""
lock, requested_end = threading.Lock(), threading.Event()


def send(message: Message) -> None:
    with lock:
        sys.stdout.buffer.write(protocol.frame(message))
        sys.stdout.buffer.flush()


def requests() -> Iterator[Request]:
    """What the session's engine sends."""
    while head := sys.stdin.buffer.read(4):
        yield msgspec.msgpack.decode(sys.stdin.buffer.read(int.from_bytes(head, "big")), type=Request)


def answer(question: Command | Question) -> object:
    if isinstance(question, Ask) and question.topic is Topic.STACKS:
        return []
    if isinstance(question, Ask) and question.topic is Topic.HOT_SPOT:
        return HotSpot("f", "sim.py", 1, 1e300, 1, math.inf)
    if isinstance(question, Ask) and question.topic is Topic.SPEED:
        sample = GpuSample("", power_w=math.nan)
        return SpeedFacts("good/cpu0", WorkerState.RUNNING, gpu_util_pct=1e300, n_envs=-5, sample=sample)
    if isinstance(question, Ask) and question.topic is Topic.CURVES:
        return {"progress": Curve((FAR,), (-1,), (-2.5,), 1, Point(FAR, 1, -2.5))}
    return None


def listen() -> None:
    """Agree to everything."""
    for message in requests():
        if isinstance(message, Numbered):
            if isinstance(request := message.request, SetSlot):
                assignment = msgspec.msgpack.decode(request.assignment, type=Assignment | None)
                if assignment is not None:
                    assigned[request.slot] = assignment
            elif isinstance(request, End):
                requested_end.set()
            send(Answer.with_value(message.id, answer(request) if kind == "absurd" else None))
    os._exit(0)


def report() -> None:
    """Report that everything runs, for ever."""
    began = structs.replace(NO_ATTEMPT, number=1, pid=1, started=time.time(), state=WorkerState.RUNNING)
    reason = "x" * (8 << 20) if kind == "large" else None
    line = "asked to end" if requested_end.is_set() else ""
    views = {
        slot: Worker(slot, 0, WorkerState.RUNNING, reason=reason, newest=began, last_line=line) for slot in assigned
    }
    if kind == "moments":
        views = {
            slot: structs.replace(view, newest=structs.replace(began, started=1e300)) for slot, view in views.items()
        }
    if kind == "absurd":
        alerts = tuple(Alert(name, Severity.ERROR, name, FAR) for name in ("nan", "no such kind"))
        fps = Fps(1e300, 1e300, 1e300, 1, -1.0, env_steps=math.inf)
        began = structs.replace(
            began, fps=fps, n_envs=-5, alerts=alerts, started=FAR, energy_j=1e300, metrics={"x": -1e300}
        )
        saved = tuple(Checkpoint(path, FAR) for path in ("--evil", "/x\0y", "/x" * 9999, "/model.pt"))
        saved += (Checkpoint("/x", FAR, progress="x" * 9999),)
        began = structs.replace(began, progress=Progress(1.0, math.inf, "step"), checkpoints=saved)
        views = {slot: structs.replace(view, alerts=alerts, newest=began) for slot, view in views.items()}
    if kind == "counted":
        began = structs.replace(began, fps=Fps(1.0, 1.0, 1.0, 1, counted="printed"))
    if kind == "ignores":
        began = structs.replace(began, printed_envs=1, had_progress=True)
    if kind in {"counted", "ignores"}:
        views = {slot: structs.replace(view, newest=began) for slot, view in views.items()}
    reports = {
        slot: SlotReport(msgspec.msgpack.encode(AttemptReport(assigned[slot].key, view)), curves=_curves())
        for slot, view in views.items()
    }
    content = msgspec.msgpack.encode(Report(reports, "evil\0host" if kind == "address" else ""))
    content = content.replace(b"\xa7printed", b"\xa7guessed")
    send(SlotReports(msgspec.Raw(content)))


_TIME = b"\xcb" + struct.pack(">d", 1.0)
_VALUE = b"\xcb" + struct.pack(">d", 2.5)


def _curves() -> bytes:
    if kind not in {"curves", "empty", "moments"}:
        return b""
    at = {"moments": 1e300}.get(kind, 1.0)
    curves = msgspec.msgpack.encode({"reward": Curve((at,), (1,), (2.5,), 1, Point(at, 1, 7.5))})
    if kind == "empty":
        curves = curves.replace(b"\xa5times\x91" + _TIME, b"\xa5times\x90")
        curves = curves.replace(b"\xa5steps\x91\x01", b"\xa5steps\x90")
        curves = curves.replace(b"\xa6values\x91" + _VALUE, b"\xa6values\x90")
    if kind == "curves":  # fewer values than times
        curves = curves.replace(b"\xa6values\x91" + _VALUE, b"\xa6values\x90")
    return curves


def main() -> None:
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=RunSpec)
    sys.stdout.buffer.write(f'{AGENT_MARK}{{"ok":true}}\n'.encode())
    sys.stdout.buffer.flush()
    next(requests())
    many = tuple(f"evil/cpu{number}" for number in range(4096))
    named = {"slots": ("\x1b[2J",), "no slots": (), "many slots": many, "twice": ("cpu0", "evil/cpu0")}
    names = named.get(kind, ("evil/cpu0",))
    slots = tuple(map(Slot, names)) if kind != "leaves" else (Slot("evil/gpu0", Gpu(0, "GPU-evil", "H100")),)
    if kind == "with GPU":
        slots = (Slot("evil/cpu0", Gpu(0, "GPU-evil", "H100")),)
    send(Welcome(Session(spec, slots, 1, time.time(), ""), Snapshot(0.0, 0.0, ()), ()))
    if kind == "leaves":
        return
    threading.Thread(target=listen, daemon=True).start()
    while True:
        send(Update(Snapshot(time.time(), 0.0, (), samples=(GpuSample("GPU-of-another"),))))
        report()
        for slot in ("good/cpu0", "evil/cpu0"):
            send(Lines(slot, 2**64 - 1 if kind == "absurd" else 0, (f"a lie on {slot}",)))
        time.sleep(0.2)


if host.endswith("evil"):
    main()
    sys.exit()
os.execvp("sh", ["sh", "-c", command])
