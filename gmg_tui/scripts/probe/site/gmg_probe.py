"""Wraps the calls of `calls.txt`: counts steps, notes when a phase begins, and reports metrics and saved files.

Each process that simulates has a file of `WORDS` aligned 8-byte words, which it alone writes and the engine reads. The
first Python of an attempt has one at once; others, such as helpers that simulate nothing, have one once a simulator is
imported or stepped. Nothing here raises, prints, or starts a thread: without the probe a script runs all the same.
"""

import os
import sys
from struct import Struct
from time import monotonic_ns

PHASES = ("started", "importing", "initialising", "created", "building", "compiling", "built", "stepping")
"""In their order, from 0; each lasts until the next. The import of a simulator begins with `importing`."""
IMPORTING, STEPPING = PHASES.index("importing"), PHASES.index("stepping")
KINDS = ("", "vector", "simulator")
DETERMINISM = ("unknown", "off", "on")
STACKS = "stacks"
"""The file to which a process writes its Python stacks when it gets `STACK_SIGNAL`."""
STACK_SIGNAL = 46
"""A real-time signal (signal(7)) that no library of ours takes; a process without a handler for it would die of it."""

MAGIC = 0x474D_4750_524F_4205
"""The first word of a file that can be read: `GMGPRO`, and the version of its layout."""
TIMES = ("simulator_ns", "learning_ns", "rendering_ns")
"""The time in steps, in what a learner computes, and in rendering; none has another's."""
NAMES = (
    *("magic", "phase", "phase_ns"),  # phase_ns: its begin; all moments by CLOCK_MONOTONIC
    *("kind", "environments", "first_environments", "first_ns"),  # of the first step, and when that ended
    *("steps", "environment_steps", "last_ns"),  # last_ns: when the last step ended
    *("mark_steps", "mark_ns"),  # environment steps before the last long pause between two steps, and when it began
    *(f"mark_{name}" for name in TIMES),  # at its end, without the step after it
    "long_ns",  # the length of a long pause: half of the longest lately
    "determinism",  # of torch at the first step, in `DETERMINISM`
    *TIMES,
)
WORDS = Struct(f"{len(NAMES)}q")
_LONG_PAUSE_WINDOW_NS, _MIN_MARK_GAP_NS = 5_000_000_000, 100_000_000
"""The time without a long pause after which half its length is long, and the shortest time between two marks."""


class _Counts:
    """The counts of this process, and its file."""

    __slots__ = (*NAMES, "by_thread", "halve_ns", "learned_ns", "learned_steps", "words")

    def __init__(self):
        self.words = None  # False where there can be no file
        self.by_thread = {}  # the number of the last step that each thread has counted
        self.phase = self.steps = self.environment_steps = 0
        self.environments = -1  # so that the next step calls `begin`
        self.last_ns = self.mark_ns = self.long_ns = self.halve_ns = 0
        self.simulator_ns = self.learning_ns = self.rendering_ns = 0
        self.learned_ns, self.learned_steps = 0, -1

    def write(self, name, *values):
        if self.words or (self.words is None and self.open()):
            for index, value in enumerate(values, NAMES.index(name)):
                self.words[index] = value  # `pack_into` would write zeros first, which the engine could read

    def open(self):
        """Make the file, or continue it after an `exec`; `words` stays False if that raises."""
        self.words = False
        import mmap

        descriptor = open_file(str(os.getpid()), os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)  # on a full disk this raises; a write would be a SIGBUS
            self.words = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("q")
        finally:
            os.close(descriptor)
        for name in ("steps", "environment_steps", "last_ns", "mark_ns", "long_ns", *TIMES):
            setattr(self, name, self.words[NAMES.index(name)])
        return True

    def enter(self, name):
        """Begin a phase; none where that is `-`."""
        try:
            if name != "-":
                self.phase, self.environments = PHASES.index(name), -1
                self.write("phase", self.phase, monotonic_ns())
                self.write("magic", MAGIC)
        except Exception:
            return

    def begin(self, environments, kind, now):
        """Before the first step is counted, or one after another phase or with another number of environments."""
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
        """Returns an index of `DETERMINISM`: whether torch uses deterministic algorithms."""
        enabled = getattr(sys.modules.get("torch"), "are_deterministic_algorithms_enabled", None)
        return 0 if enabled is None else 1 + bool(enabled())

    def pause(self, now):
        """Before a step is counted that a long pause preceded, or where there was none for long."""
        pause = now - self.last_ns
        if pause < self.long_ns:
            self.long_ns, self.halve_ns = self.long_ns // 2, now + _LONG_PAUSE_WINDOW_NS
        elif now - self.mark_ns >= _MIN_MARK_GAP_NS or pause > 2 * self.long_ns:
            self.long_ns, self.mark_ns = max(self.long_ns, pause // 2), self.last_ns
            self.halve_ns = now + _LONG_PAUSE_WINDOW_NS
            times = self.simulator_ns, self.learning_ns, self.rendering_ns
            self.write("mark_steps", self.environment_steps, self.last_ns, *times, self.long_ns)

    def spend(self, name, time_ns):
        """Add to one of `TIMES`."""
        setattr(self, name, getattr(self, name) + time_ns)
        if self.words:
            self.words[NAMES.index(name)] = getattr(self, name)

    def learn(self):
        """Before and after a call of a learner, which also computes between two of them, if it does not step there."""
        now = monotonic_ns()
        if self.learned_steps == self.steps:
            self.spend("learning_ns", now - self.learned_ns)
        self.learned_ns, self.learned_steps = now, self.steps


folder = ""
_reports = None
"""The module `gmg_reports`."""
_counts = _Counts()
_rows: "list[list[str]]" = []  # of `calls.txt`: how to wrap, module, class, method, and the wrapper's arguments


def open_file(name, flags):
    """Opens a file in the probe's folder, creating it; raises `OSError` if another user could change the folder."""
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(where)
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise PermissionError(folder)
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=where)
    finally:
        os.close(where)


def start(where, reports):
    """Counts in this process, and in those that it forks, into files in the folder `where`; so does `reports`."""
    global folder, _reports
    folder, _reports = where, reports
    with open(os.path.join(os.path.dirname(__file__), "calls.txt"), encoding="utf-8") as file:
        _rows.extend(line.partition("#")[0].split() for line in file if line.startswith(tuple(_WRAPPERS)))
    sys.meta_path.insert(0, _Finder())
    _reports.ring.open_file = open_file
    os.register_at_fork(after_in_child=_counts.__init__)  # a child counts for itself
    os.register_at_fork(after_in_child=_reports.ring.restart)
    try:
        os.close(open_file("started", os.O_EXCL))
    except OSError:
        return  # another Python of this attempt was the first
    _counts.enter("started")


def _counting(original, environments_of, kind_name):
    """A step that counts if its thread counted no other in it: the innermost of nested environments does."""
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
                return result  # what is inside has counted
            environments, now = get(args[0]), clock()
            if environments != counts.environments:
                environments = int(environments) or 1
                if environments != counts.environments:
                    counts.begin(environments, kind, now)
            if now - counts.last_ns >= counts.long_ns or now > counts.halve_ns:
                counts.pause(now)
            # No call between reading and writing a number: another thread could run there.
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


def _marking(original, at_beginning, at_end):
    """A call that begins phases."""

    def call(*args, **kwargs):
        _counts.enter(at_beginning)
        result = original(*args, **kwargs)
        _counts.enter(at_end)
        return result

    return call


def _reporting(original, how):
    """A call that reports metrics."""
    report = _reports.METRICS[how]

    def call(*args, **kwargs):
        result = original(*args, **kwargs)
        try:
            report(*args, **kwargs)
        except Exception:
            return result
        return result

    return call


def _saving(original, kind_name):
    """A call that saves a file, named by its second argument."""
    kind = _reports.STATE if kind_name == "state" else _reports.EXPORT

    def call(*args, **kwargs):
        result = original(*args, **kwargs)
        try:
            place = (
                args[1] if len(args) > 1 else next(kwargs[name] for name in ("f", "path", "filename") if name in kwargs)
            )
            _reports.saved(kind, _counts.environment_steps, place)
        except Exception:
            return result
        return result

    return call


def _timing(original, name):
    """A call whose time is one of `TIMES`. A step that renders is not the simulator's for this time."""
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
            if "render" not in callers:  # else it is a part of that
                _counts.spend("rendering_ns", took_ns)
                _counts.spend("simulator_ns", -took_ns if "step" in callers else 0)

    return learn if name == "learning" else render


_WRAPPERS = {"step ": _counting, "call ": _marking, "time ": _timing, "metric ": _reporting, "save ": _saving}


def _wrap(module):
    """Wrap the functions of the table that a module has."""
    from functools import update_wrapper

    for what, name, owner_name, method, *rest in _rows:
        owner = module if owner_name == "-" else getattr(module, owner_name, None)
        original = getattr(owner, "__dict__", {}).get(method) if name == module.__name__ else None
        if callable(original):
            setattr(owner, method, update_wrapper(_WRAPPERS[what + " "](original, *rest), original))


class _Finder:
    """Waits for the modules of the table: once one has been executed, its functions are wrapped."""

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
