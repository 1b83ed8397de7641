"""Wraps the calls of `calls.txt`: counts steps, records the start of phases, and reports metrics and saved files.

Each simulating process writes a file of `WORDS`, aligned 8-byte words that the engine reads. The first Python of an attempt
creates its file at once, others only when a simulator is imported or stepped. Nothing here raises into the script, prints, or
starts a thread.
"""

import os
import sys
from struct import Struct
from time import monotonic_ns

PHASES = ("started", "importing", "initialising", "created", "building", "compiling", "built", "stepping")
"""The phases in order; each lasts until the next. `importing` begins with the import of a simulator."""
IMPORTING, STEPPING = PHASES.index("importing"), PHASES.index("stepping")
KINDS = ("", "vector", "simulator")
DETERMINISM = ("unknown", "off", "on")
STACKS = "stacks"
"""The file for the Python stacks that a process writes on `STACK_SIGNAL`."""
STACK_SIGNAL = 46
"""A real-time signal (signal(7)) that no known library uses. It kills a process without a handler."""

MAGIC = 0x474D_4750_524F_4205
"""The first word of a readable file: `GMGPRO` and the version of its layout."""
TIMES = ("simulator_ns", "learning_ns", "rendering_ns")
"""The time in steps, learning and rendering, without overlap."""
NAMES = (
    *("magic", "phase", "phase_ns"),  # phase_ns: start of the phase; all times by CLOCK_MONOTONIC
    *("kind", "environments", "first_environments", "first_ns"),  # first_ns: end of the first step
    *("steps", "environment_steps", "last_ns"),  # last_ns: end of the last step
    *("mark_steps", "mark_ns"),  # environment steps before the last long pause between two steps, and its start
    *(f"mark_{name}" for name in TIMES),  # at the end of that pause
    "long_ns",  # the length of a long pause: half of the longest recent one
    "determinism",  # of torch at the first step, in `DETERMINISM`
    *TIMES,
)
WORDS = Struct(f"{len(NAMES)}q")
_LONG_PAUSE_WINDOW_NS, _MIN_MARK_GAP_NS = 5_000_000_000, 100_000_000
"""The time without a long pause after which `long_ns` is halved, and the shortest time between two marks."""


class _Counts:
    """The counts of this process, and its file."""

    __slots__ = (*NAMES, "by_thread", "halve_ns", "learned_ns", "learned_steps", "words")

    def __init__(self):
        self.words = None  # False if there can be no file
        self.by_thread = {}  # the number of each thread's last counted step
        self.phase = self.steps = self.environment_steps = 0
        self.environments = -1  # so that the next step calls `begin`
        self.last_ns = self.mark_ns = self.long_ns = self.halve_ns = 0
        self.simulator_ns = self.learning_ns = self.rendering_ns = 0
        self.learned_ns, self.learned_steps = 0, -1

    def write(self, name, *values):
        if self.words or (self.words is None and self.open()):
            for index, value in enumerate(values, NAMES.index(name)):
                self.words[index] = value  # `pack_into` writes zeros first, which the engine could read

    def open(self):
        """Creates the file, or continues it after an `exec`; `words` stays False if that fails."""
        self.words = False
        import mmap

        descriptor = open_file(str(os.getpid()), os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)  # raises on a full disk, where a write would be a SIGBUS
            self.words = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("q")
        finally:
            os.close(descriptor)
        for name in ("steps", "environment_steps", "last_ns", "mark_ns", "long_ns", *TIMES):
            setattr(self, name, self.words[NAMES.index(name)])
        return True

    def enter(self, name):
        """Enters the phase `name`; does nothing for `-`."""
        try:
            if name != "-":
                self.phase, self.environments = PHASES.index(name), -1
                self.write("phase", self.phase, monotonic_ns())
                self.write("magic", MAGIC)
        except Exception:
            return

    def begin(self, environments, kind, now):
        """Prepares to count the first step of a phase, or with another number of environments."""
        if self.phase != STEPPING:
            self.enter("stepping")
        self.environments = environments
        if not self.steps:
            self.last_ns = now
            self.write("first_environments", environments, now)
            self.write("determinism", self.torch_determinism())
        self.write("kind", kind, environments)

    @staticmethod
    def torch_determinism():
        """Returns the index in `DETERMINISM` of torch's mode."""
        enabled = getattr(sys.modules.get("torch"), "are_deterministic_algorithms_enabled", None)
        return 0 if enabled is None else 1 + bool(enabled())

    def pause(self, now):
        """Marks the long pause before a step, or halves `long_ns` if there was none for a while."""
        pause = now - self.last_ns
        if pause < self.long_ns:
            self.long_ns, self.halve_ns = self.long_ns // 2, now + _LONG_PAUSE_WINDOW_NS
        elif now - self.mark_ns >= _MIN_MARK_GAP_NS or pause > 2 * self.long_ns:
            self.long_ns, self.mark_ns = max(self.long_ns, pause // 2), self.last_ns
            self.halve_ns = now + _LONG_PAUSE_WINDOW_NS
            times = self.simulator_ns, self.learning_ns, self.rendering_ns
            self.write("mark_steps", self.environment_steps, self.last_ns, *times, self.long_ns)

    def spend(self, name, time_ns):
        """Adds `time_ns` to one of `TIMES`."""
        setattr(self, name, getattr(self, name) + time_ns)
        if self.words:
            self.words[NAMES.index(name)] = getattr(self, name)

    def learn(self):
        """Counts the time since the last call as learning, unless a step came between; called around a learner's calls."""
        now = monotonic_ns()
        if self.learned_steps == self.steps:
            self.spend("learning_ns", now - self.learned_ns)
        self.learned_ns, self.learned_steps = now, self.steps


folder = ""
_reports = None
"""The module `gmg_reports`."""
_counts = _Counts()
_rows: "list[list[str]]" = []  # of `calls.txt`: wrapper, module, class, method, and the wrapper's arguments


def open_file(name, flags, directory=None):
    """Opens or creates a file in the probe's folder. Raises `OSError` if another user could change the folder."""
    directory = os.open(directory or folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(folder)
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=directory)
    finally:
        os.close(directory)


def start(directory, reports):
    """Starts the probe in this process and its forks, with files in the folder `directory`."""
    import atexit

    global folder, _reports
    folder, _reports = directory, reports
    with open(os.path.join(os.path.dirname(__file__), "calls.txt"), encoding="utf-8") as file:
        _rows.extend(line.partition("#")[0].split() for line in file if line.startswith(tuple(_WRAPPERS)))
    sys.meta_path.insert(0, _Finder())
    _reports.ring.open_file = open_file
    os.register_at_fork(after_in_child=_counts.__init__)
    os.register_at_fork(after_in_child=_reports.ring.restart)
    try:
        os.close(open_file("started", os.O_EXCL))
    except OSError:
        first_pid = 0  # not the attempt's first Python
    else:
        first_pid = os.getpid()
        _counts.enter("started")
    atexit.register(_reports.report_end, first_pid)  # before the script's functions, to be called last


def _count_step(original, environments_of, kind_name):
    """Wraps a step to count it, unless an inner step was counted: only the innermost of nested environments counts."""
    from _thread import get_ident
    from operator import attrgetter

    counts, clock, get = _counts, monotonic_ns, attrgetter(environments_of)
    kind = KINDS.index(kind_name)
    names = ("steps", "environment_steps", "last_ns", "simulator_ns")
    at_steps, at_environment_steps, at_last, at_simulator = map(NAMES.index, names)

    def step(*args, **kwargs):
        before, began = counts.steps, clock()
        result = original(*args, **kwargs)
        try:
            thread = get_ident()
            if counts.steps != before and counts.by_thread.get(thread, 0) > before:
                return result  # the inner environment was counted
            environments, now = get(args[0]), clock()
            if environments != counts.environments:
                environments = int(environments) or 1
                if environments != counts.environments:
                    counts.begin(environments, kind, now)
            if now - counts.last_ns >= counts.long_ns or now > counts.halve_ns:
                counts.pause(now)
            # No calls between reading and writing a number: another thread could run there.
            counts.last_ns = now
            counts.simulator_ns = simulator_ns = counts.simulator_ns + now - began
            counts.steps = steps = counts.steps + 1
            counts.environment_steps = environment_steps = counts.environment_steps + counts.environments
            counts.by_thread[thread] = steps
            words = counts.words
            if words:
                words[at_environment_steps] = environment_steps
                words[at_last] = now
                words[at_simulator] = simulator_ns
                words[at_steps] = steps
        except Exception:
            return result
        return result

    return step


def _mark(original, at_beginning, at_end):
    """Wraps a call that begins phases."""

    def call(*args, **kwargs):
        _counts.enter(at_beginning)
        result = original(*args, **kwargs)
        _counts.enter(at_end)
        return result

    return call


def _call_then(original, report):
    """Wraps a call so that `report` is called next, with the same arguments."""

    def call(*args, **kwargs):
        result = original(*args, **kwargs)
        try:
            report(*args, **kwargs)
        except Exception:
            return result
        return result

    return call


def _report(original, form):
    """Wraps a call that reports metrics; `form` names the form of its arguments."""
    return _call_then(original, _reports.METRICS[form])


def _report_save(original, kind_name, suffix=""):
    """Wraps a call that saves the file named by its second argument, to which it adds `suffix` if it has none."""

    def report(*args, **kwargs):
        target = (
            args[1] if len(args) > 1 else next(kwargs[name] for name in ("f", "path", "filename") if name in kwargs)
        )
        _reports.report_saved(kind_name, _counts.environment_steps, target, suffix)

    return _call_then(original, report)


def _time(original, name):
    """Wraps a call whose time is one of `TIMES`; rendering in a step is subtracted from the step's time."""
    from inspect import currentframe

    def learn(*args, **kwargs):
        _counts.learn()
        try:
            return original(*args, **kwargs)
        finally:
            _counts.learn()

    def render(*args, **kwargs):
        began = monotonic_ns()
        try:
            return original(*args, **kwargs)
        finally:
            took_ns, frame, callers = monotonic_ns() - began, currentframe(), set()
            while frame := frame.f_back:
                callers.add(frame.f_code.co_name if frame.f_code.co_filename == __file__ else "")
            if "render" not in callers:  # else the outer call counts
                _counts.spend("rendering_ns", took_ns)
                _counts.spend("simulator_ns", -took_ns if "step" in callers else 0)

    return learn if name == "learning" else render


_WRAPPERS = {"step ": _count_step, "call ": _mark, "time ": _time, "metric ": _report, "save ": _report_save}


def _wrap(module):
    """Wraps the functions that `calls.txt` lists for a module."""
    from functools import update_wrapper

    for kind, name, owner_name, method, *rest in _rows:
        owner = module if owner_name == "-" else getattr(module, owner_name, None)
        original = getattr(owner, "__dict__", {}).get(method) if name == module.__name__ else None
        if callable(original):
            setattr(owner, method, update_wrapper(_WRAPPERS[kind + " "](original, *rest), original))


class _Finder:
    """Wraps the functions of the modules in `calls.txt` once those modules have been executed."""

    def find_spec(self, name, path=None, target=None):
        calls = [row[0] for row in _rows if row[1] == name]
        if not calls:
            return None
        if "call" in calls and _counts.phase < IMPORTING:
            _counts.enter("importing")
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        try:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                try:
                    _wrap(module)
                except Exception:
                    return

            spec.loader.exec_module = exec_module
        except Exception:
            return spec
        return spec
