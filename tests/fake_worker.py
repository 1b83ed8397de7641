"""A stand-in for a Genesis script: its lines in their exact bytes, phase by phase, with faults on demand.

Starts in some 30 ms with the standard library alone. `python tests/fake_worker.py --help` names what it can do.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

PHASES = ("importing", "initialising", "creating", "adding", "building", "compiling", "visualizer", "running")

ERRORS = {
    "race": "_pickle.UnpicklingError: pickle data was truncated",
    "oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of "
    "14.57 GiB of which 1.58 GiB is free.",
    "traceback": "ValueError: the robot has 9 joints, 7 were given\n  in: panda.xml\n  see: control_dofs_position",
}

GARBAGE = (
    bytes(range(256)) + b"\n",
    b"\x00\x00NUL in the middle\x00\n",
    b"\xff\xfe\xc3( no UTF-8 \xf0\x9f\x92\n",
    b"\x1b]0;a title\x07\x1b[2J\x1b[H\x1b[?1049h\x1b[31mred\x1b[999;999H\x1b[6n\n",
    b"[/] [bold]markup[/bold] [link=file:///etc/passwd]x[/link] [/not open]\n",
    b"overwritten\rby this\r\n",
    b"Running at 1,2,3,,4 FPS. Running at inf FPS. Running at nan FPS (nan FPS per env, 0 envs).\n",
    "right to left \u202egnp.exe\u202c and \u200binvisible\n".encode(),
)


class Colours:
    """The ANSI codes of Genesis's dark theme (`genesis/styles.py`)."""

    INFO, WARNING, ERROR = "\x1b[38;5;159m", "\x1b[38;5;226m", "\x1b[38;5;9m"
    MINT, RESET = "\x1b[38;5;121m", "\x1b[0m"


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("-B", "--n_envs", type=int, default=16, help="environments")
    add("--fps", type=float, default=12800.0, help="the true rate, over all environments")
    add("--steady", action="store_true", help="print the true rate, not the average that Genesis would print")
    add("--rate", type=float, default=20.0, help="lines a second")
    add("--lines", type=int, default=40, help="progress lines before the end; 0: for ever")
    add("--phase-s", type=float, default=0.02, help="seconds in each silent phase")
    add("--device", default="NVIDIA H100 80GB HBM3")
    add("--backend", default="cuda", choices=("cuda", "cpu"))
    add("--seed", help="ignored, as many scripts take one")
    add("--crash", choices=ERRORS)
    add("--crash-at", choices=PHASES, help="default: building for race, else running, after half of the lines")
    add("--crash-attempt", type=int, default=1 << 30, help="crash up to this attempt (GMG_ATTEMPT) only")
    add("--ignore-sigint", action="store_true")
    add("--ignore-sigterm", action="store_true")
    add("--save-s", type=float, default=0.0, help="seconds to save kernels at the end")
    add("--fork-grandchild", metavar="FILE", help="leave a process in a session of its own; its PID goes into FILE")
    add("--hang", choices=PHASES, help="silent for ever, without CPU")
    add("--spin", choices=PHASES, help="silent for ever, at full CPU")
    add("--flood", action="store_true", help="lines as fast as they are taken")
    add("--plain", action="store_true", help="print lines without a word of Genesis")
    add("--garbage", action="store_true", help="hostile bytes between the lines")
    add("--long-line", type=int, metavar="BYTES", help="one line of this length before the progress lines")
    add("--print-env", metavar="FILE", help="JSON of environment, arguments, PID, process group and session")
    add("--stamp", metavar="FILE", help="number and CLOCK_MONOTONIC of each progress line, once it is written")
    return parser.parse_args(argv)


class FakeWorker:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.uid = f"{os.getpid():07x}"[-7:]
        self.stamps = options.stamp and os.open(options.stamp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.average: float | None = None

    def write(self, data: bytes, stream: int = 1) -> None:
        while data:
            data = data[os.write(stream, data) :]

    def stamp(self, number: int) -> None:
        """Record in the file of stamps that this many lines are written."""
        if self.stamps is not None:
            os.write(self.stamps, f"{number} {time.monotonic():.6f}\n".encode())

    def log(self, text: str, level: str = "INFO") -> None:
        """A line of Genesis's logger; `~<…>~` is what it shows in mint."""
        if self.options.plain:
            return
        colour = getattr(Colours, level)
        shown = text.replace("~<", Colours.MINT).replace(">~", Colours.RESET + colour)
        head = f"{colour}[Genesis] [{time.strftime('%H:%M:%S')}] [{level}] "
        self.write(f"{head}{shown}{Colours.RESET}\n".encode())

    def enter(self, phase: str) -> None:
        """Be in a phase for its time, or for ever, or not survive it."""
        if self.options.hang == phase:
            while True:
                time.sleep(3600)
        while self.options.spin == phase:
            pass
        if self.options.crash_at == phase and phase != "running":
            self.crash()
        time.sleep(self.options.phase_s)

    def crash(self) -> None:
        if int(os.environ.get("GMG_ATTEMPT", "1")) > self.options.crash_attempt:
            return
        name, _, text = ERRORS[self.options.crash].partition(": ")
        raise FaultError(name, text)

    def build(self) -> None:
        options = self.options
        self.enter("importing")
        bar = "─" * 47
        self.log(f"~<╭{bar}╮>~")
        self.log(f"~<│{'┈┉' * 9}┈>~ \x1b[1m\x1b[3m~<Genesis>~ ~<{'┈┉' * 9}┈│>~")
        self.log(f"~<╰{bar}╯>~")
        backend = options.backend
        device = "AMD EPYC 9654 96-Core Processor" if backend == "cpu" else options.device
        self.log(f"Running on ~<[{device}]>~ with backend ~<gs.{backend}>~. Device memory: ~<79.11>~ GB.")
        rest = "🎨 theme: ~<dark>~, 🌱 seed: ~<None>~, 🐛 debug: ~<False>~, 📏 precision: ~<32>~, 💬 verbose: ~<INFO>~"
        self.log(f"🚀 Genesis initialized. 🔖 version: ~<1.4.5>~, {rest}")
        self.enter("initialising")
        self.log(f"Scene ~<\x1b[3m<{self.uid}>>~ created.")
        self.enter("creating")
        self.log(
            f"Adding ~<<gs.engine.entities.RigidEntity>>~ ~<plane_{self.uid}>~. idx: ~<0>~, "
            "morph: ~<<gs.morphs.Plane>>~, material: ~<<gs.materials.Rigid>>~."
        )
        self.enter("adding")
        self.log(f"Building scene ~<\x1b[3m<{self.uid}>>~...")
        self.enter("building")
        self.log("Compiling simulation kernels...")
        self.enter("compiling")
        self.log("Building visualizer...")
        self.enter("visualizer")

    def printed(self) -> float:
        """The number that Genesis would print next for a rate that stands still."""
        true: float = self.options.fps
        if self.options.steady:
            return true
        self.average = 0.01 * true if self.average is None else 0.95 * self.average + 0.05 * true
        return self.average

    def progress(self) -> None:
        value, envs = self.printed(), self.options.n_envs
        self.log(f"Running at ~<{value:,.2f}>~ FPS (~<{value / envs:.2f}>~ FPS per env, ~<{envs}>~ envs).")

    def run(self) -> None:
        options = self.options
        self.enter("running")
        if options.long_line:
            self.write(b"x" * options.long_line + b"\n")
        if options.flood:
            self.flood()
        total = options.lines
        start, number = time.monotonic(), 0
        while not total or number < total:
            if options.crash_at == "running" and number >= (total or 20) // 2:
                self.crash()
            self.one(number)
            number += 1
            self.stamp(number)
            time.sleep(max(0.0, start + number / options.rate - time.monotonic()))

    def one(self, number: int) -> None:
        if self.options.garbage:
            self.write(GARBAGE[number % len(GARBAGE)], 1 + number % 2)
        if self.options.plain:
            self.write(f"step {number}\n".encode())
        else:
            self.progress()

    def flood(self) -> None:
        """Lines as fast as the reader takes them: `--lines` of them, or for ever."""
        number, total, chunk = 0, self.options.lines, 500
        while not total or number < total:
            count = min(chunk, total - number) if total else chunk
            self.write("".join(f"line {i} of the flood\n" for i in range(number, number + count)).encode())
            number += count
            self.stamp(number)
        self.options.lines = -1  # nothing after it

    def fail(self, error: BaseException) -> None:
        """What Genesis does with an exception: the traceback on stdout from 0.3.0, then one line of its logger."""
        name = error.name if isinstance(error, FaultError) else type(error).__name__
        frames = (
            "".join(traceback.format_tb(error.__traceback__))
            if not isinstance(error, FaultError)
            else "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[:2]))
        )
        end = f"{name}: {error}" if str(error) else name
        self.write(f"Traceback (most recent call last):\n{frames}{end}\n\n".encode())
        self.log(f"{name.rpartition('.')[2]}: {error}", "ERROR")


class FaultError(Exception):
    """An exception of somebody else's, by name."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def record(path: str) -> None:
    import json  # late: only tests of the environment pay for it

    facts = {"env": dict(os.environ), "argv": sys.argv, "cwd": str(Path.cwd()), "pid": os.getpid()}
    facts |= {"pgid": os.getpgrp(), "sid": os.getsid(0)}
    temporary = Path(f"{path}.{os.getpid()}")
    temporary.write_text(json.dumps(facts))
    temporary.replace(path)


def main() -> int:
    options = parse(sys.argv[1:])
    if options.crash and not options.crash_at:
        options.crash_at = "building" if options.crash == "race" else "running"
    if options.print_env:
        record(options.print_env)
    if options.ignore_sigint:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.fork_grandchild:
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        Path(options.fork_grandchild).write_text(str(child.pid))
    worker = FakeWorker(options)
    code, interrupted = 0, False
    try:
        worker.build()
        worker.run()
    except KeyboardInterrupt as error:
        interrupted = True
        worker.fail(error)
    except FaultError as error:
        code = 1
        worker.fail(error)
    worker.log("💤 Exiting Genesis and caching compiled kernels...")
    time.sleep(options.save_s)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code


if __name__ == "__main__":
    sys.exit(main())
