"""The choice of slots by `--gpus` and an outer `CUDA_VISIBLE_DEVICES`."""

from collections.abc import Iterable

from gmg_tui.model import Gpu, Slot
from gmg_tui.model.errors import GmgError
from gmg_tui.model.units import count, natural

_HIDE_ALL = frozenset({"-1", "NoDevFiles"})
"""Entries, as Slurm writes them, that hide all following ones from CUDA."""


def slots(devices: tuple[Gpu, ...], gpus: str | None, visible: str | None) -> tuple[Slot, ...]:
    """Returns the slots to run on, in the requested order. The index of a GPU in MIG mode selects its instances.

    Args:
        devices: The GPUs, as from `Nvml.gpus`.
        gpus: `--gpus`: `all` or None; a count; `free` or `free:4`, with all as candidates; a list with a comma (`0,`
            is a list of one) of NVML indices and UUIDs, which may be shortened.
        visible: The outer `CUDA_VISIBLE_DEVICES`, with NVML's indices (`CUDA_DEVICE_ORDER=PCI_BUS_ID`); None allows all.
            CUDA ignores an unknown entry and all after it; here it is an error.

    Raises:
        GmgError: There is no GPU, or a requested one is missing.
    """
    usable = allowed = tuple(gpu for gpu in devices if not gpu.mig and gpu.trouble is None)
    if not usable:
        no_instance = "every GPU is in MIG mode and has no instance (create some with `nvidia-smi mig`)"
        raise no_gpu_error(describe_silent(devices) or (no_instance if devices else "NVML lists none"))
    if visible is not None:
        entries = [entry.strip() for entry in visible.split(",")]
        end = next((index for index, entry in enumerate(entries) if entry in _HIDE_ALL), len(entries))
        allowed = _resolve(devices, entries[:end], f"CUDA_VISIBLE_DEVICES={visible}")
    if not allowed:
        raise no_gpu_error(f"CUDA_VISIBLE_DEVICES={visible} hides all {len(usable)}")
    wanted = (gpus or "all").strip()
    number = wanted.removeprefix("free:")
    if wanted in ("all", "free"):
        return tuple(map(slot_of, allowed))
    if (wanted_count := natural(number)) is not None:
        hint = f" (CUDA_VISIBLE_DEVICES={visible} leaves {len(allowed)} of {len(usable)})" if allowed != usable else ""
        if not 0 < wanted_count <= len(allowed):
            available = f"there {'is' if len(allowed) == 1 else 'are'} {count(len(allowed), 'GPU')}{hint}"
            texts = available, describe_silent(devices), f"ask for at most {len(allowed)}, or use --cpu N"
            raise GmgError(f"--gpus {wanted}: {'; '.join(filter(None, texts))}")
        return tuple(map(slot_of, allowed[:wanted_count] if wanted == number else allowed))
    chosen = _resolve(devices, wanted.split(","), f"--gpus {wanted}")
    if not chosen:
        raise GmgError(f"--gpus {wanted!r}: give `all`, a count, `free`, or a list of indices or UUIDs such as 0,2")
    hidden = next((gpu for gpu in chosen if gpu not in allowed), None)
    if hidden is not None:
        name = slot_of(hidden).name
        raise GmgError(f"--gpus {wanted}: CUDA_VISIBLE_DEVICES={visible} hides {name}; choose another or unset it")
    return tuple(map(slot_of, chosen))


def wants_free(gpus: str | None) -> bool:
    """True for `--gpus free` and `free:4`."""
    return gpus is not None and gpus.strip().partition(":")[0] == "free"


def number_of_free(gpus: str) -> int | None:
    """Returns the number in `--gpus free:4`; None without one."""
    number = gpus.strip().partition(":")[2]
    return int(number) if number else None


def warning(devices: Iterable[Gpu], gpus: str | None, visible: str | None) -> str | None:
    """Returns a warning that silent GPUs are left out; None if all answer, or if the GPUs to use were listed."""
    named = visible is not None or (gpus is not None and "," in gpus)
    trouble = describe_silent(devices)
    return None if named or not trouble else f"{trouble}; no worker will run there"


def describe_silent(devices: Iterable[Gpu]) -> str:
    """Describes the GPUs that do not answer; empty if all do."""
    names: dict[str, list[str]] = {}
    for gpu in devices:
        if gpu.trouble is not None:
            instance = "" if gpu.mig_index is None else f" MIG instance {gpu.mig_index}"
            names.setdefault(gpu.trouble, []).append(f"{gpu.index}{instance}")
    return "; ".join(
        f"GPU {', '.join(ids)} {'does' if len(ids) == 1 else 'do'} not answer ({reason})"
        for reason, ids in names.items()
    )


def cpu_slots(number: int) -> tuple[Slot, ...]:
    """Returns `number` slots that share the CPU. Raises `GmgError` if `number` is less than one."""
    if number < 1:
        raise GmgError(f"--cpu {number}: give the number of CPU slots, 1 or more")
    return tuple(Slot(name=f"cpu{index}") for index in range(number))


def no_gpu_error(reason: str) -> GmgError:
    """Returns the error for a run without a GPU; `reason` is a clause without a full stop."""
    return GmgError(f"no GPU: {reason}; run on the CPU with --cpu N, or try `gmg-tui demo`")


def slot_of(gpu: Gpu) -> Slot:
    """Returns the slot of a GPU or MIG instance."""
    if gpu.mig_index is None:
        return Slot(f"gpu{gpu.index}", gpu)
    return Slot(f"gpu{gpu.index}-mig{gpu.mig_index}", gpu)


def _resolve(devices: tuple[Gpu, ...], wanted: list[str], source: str) -> tuple[Gpu, ...]:
    """Returns the GPUs and instances that a list names, in order."""
    chosen: list[Gpu] = []
    for entry in filter(None, (entry.strip() for entry in wanted)):
        for gpu in _matching(devices, entry, source):
            if gpu in chosen:
                raise GmgError(f"{source}: {entry} names {slot_of(gpu).name} a second time; name each GPU once")
            chosen.append(gpu)
    return tuple(chosen)


def _matching(devices: tuple[Gpu, ...], entry: str, source: str) -> tuple[Gpu, ...]:
    index = natural(entry)
    if index is not None:
        matches = [gpu for gpu in devices if gpu.index == index and gpu.mig_index is None]
    else:
        matches = [gpu for gpu in devices if entry.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(entry)]
    if trouble := describe_silent(matches):
        raise GmgError(f"{source}: {trouble}; leave it out")
    if not matches:
        indices = ", ".join(str(gpu.index) for gpu in devices if gpu.mig_index is None and gpu.trouble is None)
        texts = (
            f"no GPU matches {entry}",
            f"the GPUs are {indices} (`gmg-tui gpus` shows them)",
            describe_silent(devices),
        )
        raise GmgError(f"{source}: {'; '.join(filter(None, texts))}")
    if len(matches) > 1:
        raise GmgError(f"{source}: {entry} matches {len(matches)} UUIDs; give more characters")
    if not matches[0].mig:
        return (matches[0],)
    instances = tuple(gpu for gpu in devices if gpu.parent_uuid == matches[0].uuid)
    if not instances:
        raise GmgError(f"{source}: GPU {entry} is in MIG mode and has no instance; create some with `nvidia-smi mig`")
    return instances
