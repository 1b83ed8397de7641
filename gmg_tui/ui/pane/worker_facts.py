"""Facts about a worker and its GPU, as labels and texts."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gmg_tui.jobs.argument_placeholders import join_args
from gmg_tui.machine.gpu import xids
from gmg_tui.model import Attempt, Details, Gpu, GpuHealth, GpuProcess, GpuSample, Occurrence, Worker, units
from gmg_tui.model.secrets import mask
from gmg_tui.results import column
from gmg_tui.results.column import Column, format_value
from gmg_tui.ui import worker_text
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.slots import SlotView

_MAX_VALUE_CHARS: Final = 2000
"""Maximum characters to show of a variable's value."""
_SOURCES: Final = {"probe": "inside the script", "printed": "from the lines that the script prints"}


# The worker


def worker_facts(entry: SlotView) -> Iterator[Fact]:
    """Yields the group, the rates and their sources, the progress, CPU and memory use, and the Genesis version."""
    worker = entry.worker
    yield Fact("Worker")
    if worker.group is not None:
        yield Fact("group", worker.group.name)
    yield from _rates(entry)
    yield Fact("envs", units.figure(worker.newest.n_envs, "", units.NOT_KNOWN))
    if worker_text.is_getting_ready(worker):
        usual = worker_text.usual_text(entry)
        phase = f"{worker_text.phase_of(worker)} for {units.span(worker_text.phase_s(entry))}"
        yield Fact("phase", f"{phase}, {usual}" if usual else phase)
    if progress := worker_text.progress_text(worker):
        yield Fact("progress", progress)
    cpu = units.figure(worker.cpu_pct, "%", units.NOT_KNOWN)
    memory = units.NOT_KNOWN if worker.memory_rss_mib is None else units.mib(worker.memory_rss_mib)
    yield Fact("processes", f"CPU {cpu}, RAM {memory}")
    yield Fact("Genesis", _genesis(worker))


def _rates(entry: SlotView) -> Iterator[Fact]:
    worker = entry.worker
    fps, rate = worker.fps, units.fps(worker.rate)
    when = "over the whole attempt" if worker.state.ended else "now"
    if worker.fps_in_rank_0:
        yield Fact("FPS", worker_text.IN_RANK_0 if fps is None else f"{rate} {when}, {worker_text.IN_RANK_0}")
    else:
        ranks = worker.group.world_size if worker.group and worker.newest.fps_of_group else 0
        of_ranks = f" of all {units.count(ranks, 'rank')}" if ranks else ""
        yield Fact("FPS", f"{rate} {when}{of_ranks}" if fps is not None else rate)
    if worker.alert("silent") is not None:
        yield Fact("", *worker_text.rate_note(entry))
    if fps is not None:
        mean = "" if worker.state.ended else f"{units.fps(fps.mean)} FPS, "
        yield Fact("counted" if worker.state.ended else "whole attempt", f"{mean}{_SOURCES[fps.counted or 'printed']}")
        if fps.last is not None:
            yield Fact("printed", f"{units.fps(fps.last)} FPS, the last of {units.count(fps.samples, 'number')}")


def _genesis(worker: Worker) -> str:
    if worker.genesis_version is None and worker.device is None and worker.backend is None:
        return "nothing reported" if worker.state.ended else "nothing reported yet"
    version = worker.genesis_version or units.NOT_KNOWN
    return f"{version} on {worker.backend or units.NOT_KNOWN}, {worker.device or units.NOT_KNOWN}"


# The GPU


def gpu_facts(gpu: Gpu, sample: GpuSample | None, worker: Worker, *, at_end: bool = False) -> Iterator[Fact]:
    """Yields the newest sample, fixed properties and health; `at_end` marks the last sample of an ended session."""
    is_late = sample is not None and sample.age_s is not None and not sample.silent
    heading = "GPU at the end" if at_end else "GPU now"
    yield Fact(f"GPU {units.span(sample.age_s)} ago" if sample is not None and is_late else heading)
    if sample is None:
        yield Fact("GPU", "no sample yet", "dim")
    else:
        yield from _sample_facts(gpu, sample, worker, at_end=at_end)
    index = str(gpu.index) if gpu.mig_index is None else f"{gpu.index}, MIG instance {gpu.mig_index}"
    yield Fact("GPU")
    yield Fact("name", gpu.name)
    yield Fact("index", f"{index}, PCI {gpu.pci_bus_id or units.NOT_SUPPORTED}")
    yield Fact("UUID", gpu.uuid)
    yield Fact("persistence", {True: "on", False: "off", None: units.NOT_SUPPORTED}[gpu.persistence])
    if gpu.driver is not None:
        yield Fact("driver", f"{gpu.driver}{f', CUDA {gpu.cuda}' if gpu.cuda is not None else ''}")
    if sample is not None and sample.health is not None:
        yield from health_facts(sample.health)


def _sample_facts(gpu: Gpu, sample: GpuSample, worker: Worker, *, at_end: bool) -> Iterator[Fact]:
    total_mib, limit_w = sample.memory_total_mib or gpu.memory_total_mib, sample.power_limit_w or gpu.power_limit_w
    memory = "" if at_end else f", memory {units.figure(sample.memory_util_pct, '%')}"
    yield Fact("GPU", f"{units.figure(sample.gpu_util_pct, '%')}{memory}")
    if sample.sm_pct is not None:
        yield Fact("SMs busy", units.figure(sample.sm_pct, "%"))
    yield Fact("VRAM", f"{units.gib(sample.memory_used_mib)} of {units.gib(total_mib)} GiB")
    yield Fact("power", f"{units.rounded(sample.power_w)} of {units.rounded(limit_w)} W")
    yield Fact("temperature", units.figure(sample.temperature_c, "°C"))
    if not at_end:
        throttle = units.NOT_SUPPORTED if sample.throttle is None else ", ".join(sample.throttle) or "no"
        in_mib, out_mib = sample.pcie_rx_mib_s, sample.pcie_tx_mib_s
        transfer = f"in {units.rounded(in_mib)}, out {units.rounded(out_mib)} MiB/s"
        yield Fact("SM clock", f"{units.rounded(sample.sm_clock_mhz)} of {units.rounded(sample.sm_clock_max_mhz)} MHz")
        yield Fact("throttled", throttle, "warn" if sample.throttle else "text")
        yield Fact("fan", units.figure(sample.fan_pct, "%"))
        yield Fact("PCIe", units.NOT_SUPPORTED if in_mib is None and out_mib is None else transfer)
    used_text, total_text = units.energy(worker.newest.energy_j), units.energy(sample.energy_j)
    yield Fact("energy", f"{used_text} by the attempt, {total_text} in total")


def health_facts(health: GpuHealth) -> Iterator[Fact]:
    """Yields each problem with its advice, then the health figures; those that the GPU does not report are `n/a`."""
    yield Fact("Health")
    for problem in health.troubles:
        style = "error" if problem.fatal else "warn"
        yield Fact("", f"{problem.text}; {problem.advice}", style)
    yield Fact(
        "ECC errors",
        f"{units.figure(health.ecc_uncorrected, '')} uncorrected, {units.figure(health.ecc_corrected, '')} corrected",
    )
    yield Fact("HBM", units.figure(health.memory_temperature_c, "°C"))
    width = f"x{units.figure(health.pcie_width, '')} of x{units.figure(health.pcie_width_max, '')}"
    yield Fact(
        "PCIe link",
        f"generation {units.figure(health.pcie_gen, '')} of {units.figure(health.pcie_gen_max, '')}, {width}",
    )
    for number, xid in enumerate(reversed(health.xids)):
        text = f"{xid.code} at {units.time_of_day(xid.time)}, {units.count(xid.count, 'time')}: {xids.meaning(xid.code).text}"
        yield Fact("" if number else "Xids", text)


# Processes and attempts


def process_owner(process: GpuProcess) -> str:
    """Returns the owner of a process; `host's PID` if the PID is the host's and gmg-tui is in a container."""
    if process.slot is not None:
        return f"{process.slot} worker"
    if process.session is not None:
        return f"session {process.session}"
    if process.foreign:
        return "host's PID"
    return "not ours" if process.user is not None else "not visible"


def process_command(process: GpuProcess) -> str:
    """Returns the command line of a process, else its name."""
    return process.command or process.name or units.NOT_KNOWN


PROCESS_COLUMNS: Final = (
    Column[GpuProcess]("pid", lambda process: process.pid, "PID", write=str),
    Column[GpuProcess]("user", lambda process: process.user, align_left=True, max_width=16),
    Column[GpuProcess]("age_s", lambda process: process.age_s, "age", write=units.span),
    Column[GpuProcess]("memory_mib", lambda process: process.memory_mib, "VRAM", write=units.mib),
    Column[GpuProcess]("owner", process_owner, align_left=True),
    Column[GpuProcess]("command", process_command, align_left=True),
)
EVENT_COLUMNS: Final = (
    Column[Occurrence]("time", lambda event: units.time_of_day(event.time), align_left=True),
    Column[Occurrence]("slot", lambda event: event.slot or None, align_left=True),
    Column[Occurrence]("event", lambda event: event.kind.value, align_left=True),
    Column[Occurrence](
        "text",
        lambda event: event.text.removeprefix(f"{event.slot}: ").removeprefix(f"{event.slot} "),
        align_left=True,
    ),
)


def attempt_columns(now: Callable[[], float]) -> tuple[Column[Attempt], ...]:
    """Returns the columns of a table of attempts; `now` returns the Unix time of the newest snapshot."""
    return (
        Column[Attempt]("number", lambda attempt: attempt.number, "#"),
        Column[Attempt]("state", lambda attempt: attempt.state.value, align_left=True),
        Column[Attempt]("exit", _exit, align_left=True),
        Column[Attempt]("elapsed_s", lambda attempt: attempt.elapsed_s(now()), "elapsed", write=units.span),
        Column[Attempt]("n_envs", lambda attempt: attempt.n_envs, *column.ENVS),
        Column[Attempt]("fps", lambda attempt: attempt.rate, *column.FPS),
        Column[Attempt]("gpu_util_mean_pct", lambda attempt: attempt.gpu_util_mean_pct, *column.GPU),
        Column[Attempt]("memory_peak_mib", lambda attempt: attempt.memory_peak_mib, *column.VRAM),
        Column[Attempt]("power_mean_w", lambda attempt: attempt.power_mean_w, *column.POWER),
        Column[Attempt](
            "fps_per_w",
            lambda attempt: attempt.fps.env_steps_per_j if attempt.fps is not None else None,
            *column.FPS_PER_WATT,
        ),
        Column[Attempt]("args", lambda attempt: join_args(attempt.args), "arguments", align_left=True),
    )


def attempt_facts(attempt: Attempt) -> Iterator[Fact]:
    """Yields an attempt's full arguments, its reason, and its metrics."""
    yield Fact("arguments", join_args(attempt.args) or "none")
    if attempt.reason:
        yield Fact("reason", attempt.reason, "error" if attempt.state.value == "failed" else "text")
    for name, value in attempt.numbers.items():
        yield Fact(name, format_value(value))


def _exit(attempt: Attempt) -> str | None:
    """Returns the exit code of an attempt, or the signal that ended it; None if there is neither."""
    code = attempt.exit_code
    return None if code is None else str(code) if code >= 0 else f"signal {-code}"


# Setup


def setup_facts(details: Details, log: str | None, log_command: str) -> Iterator[Fact]:
    """Yields the command line, the folder, the path `log` with the command that prints the log, and the environment."""
    yield Fact("Command line")
    yield Fact("command", join_args(details.command) or "not started yet")
    yield Fact("folder", details.cwd)
    yield Fact("as written", join_args(details.args) or "no arguments")
    yield from _env_facts("--env", details.extra_env)
    if log is not None:
        yield Fact("log", log)
        yield Fact("", log_command)
    yield Fact("Environment")
    yield from _env_facts("set", details.env)
    yield Fact("unset", " ".join(details.unset) or "nothing")
    yield Fact("EGL", details.egl)
    if details.cpus:
        yield Fact("CPU cores", f"{details.cpus}, near its GPU; --no-pin lets it use all")


def _env_facts(label: str, env: Mapping[str, str]) -> Iterator[Fact]:
    for number, (key, value) in enumerate(mask(env).items()):
        yield Fact("" if number else label, f"{key}={value[:_MAX_VALUE_CHARS]}")
