"""Which GPUs become slots: `--gpus`, and an outer `CUDA_VISIBLE_DEVICES`."""

from __future__ import annotations

import re

from gmg_tui.errors import GmgError
from gmg_tui.model import Gpu, Slot, SlotKind
from gmg_tui.units import count

_OLD_MIG = re.compile(r"MIG-(?P<parent>GPU-[^/]+)/(?P<gpu>\d+)/(?P<compute>\d+)")
"""A MIG instance as drivers before 470 named it; CUDA still takes the form."""
_HIDE_ALL = frozenset({"-1", "NoDevFiles"})
"""Entries by which people and Slurm say "no more": CUDA takes nothing from them on."""


def slots(known: tuple[Gpu, ...], gpus: str | None, visible: str | None) -> tuple[Slot, ...]:
    """The slots to run on, in the requested order.

    A GPU in MIG mode stands for its instances, since CUDA does not run on it as a whole; its index selects all of them.

    Args:
        known: As `Nvml.gpus` gives them.
        gpus: `--gpus`: `all` or None; a number, which is a count (the first so many); a list with a comma (`0,` is a list
            of one) of NVML indices, as nvidia-smi shows them, and UUIDs, which may be cut short.
        visible: The outer `CUDA_VISIBLE_DEVICES`: None allows all. Its indices are taken as NVML's
            (`CUDA_DEVICE_ORDER=PCI_BUS_ID`). CUDA itself stops in silence at an entry that it does not know; here that is
            an error, for fewer workers than asked for must not go unseen.

    Raises:
        GmgError: There is no GPU, or not the requested ones.
    """
    usable = tuple(gpu for gpu in known if not gpu.mig)
    if not usable:
        no_instance = "every GPU is in MIG mode and has no instance (make some with `nvidia-smi mig`)"
        raise no_gpu(no_instance if known else "NVML shows none")
    allowed = usable if visible is None else _visible(known, visible)
    if not allowed:
        raise no_gpu(f"CUDA_VISIBLE_DEVICES={visible} hides all {len(usable)}")
    wanted = (gpus or "all").strip()
    if wanted == "all":
        chosen = allowed
    elif wanted.isdecimal():
        chosen = _first(int(wanted), allowed, usable, visible)
    else:
        chosen = _listed(known, wanted, allowed, visible)
    return tuple(_slot(gpu) for gpu in chosen)


def ambiguity(known: tuple[Gpu, ...], gpus: str | None) -> str | None:
    """That `--gpus N` is a count, in one line, where there is also a GPU N; None elsewhere."""
    wanted = (gpus or "").strip()
    if not wanted.isdecimal() or all(gpu.index != int(wanted) for gpu in known):
        return None
    first = "the first GPU" if int(wanted) == 1 else f"the first {wanted} GPUs"
    return f"--gpus {wanted} is a count: {first}; GPU {wanted} alone is --gpus {wanted},"


def cpu_slots(number: int) -> tuple[Slot, ...]:
    """`number` slots that share the CPU. Raises `GmgError` if `number` is less than one."""
    if number < 1:
        raise GmgError(f"--cpu {number}: give the number of CPU slots, 1 or more")
    return tuple(Slot(name=f"cpu{index}", kind=SlotKind.CPU) for index in range(number))


def shares(slot: str, jobs: int, most: int) -> tuple[str, ...]:
    """The names of the slots that `jobs` at once have on the GPU of `slot`, where a group of the sweep has up to `most`."""
    return (slot,) if most == 1 else tuple(f"{slot}-{number}" for number in range(1, jobs + 1))


def no_gpu(reason: str) -> GmgError:
    """The error for a machine, or a moment, without a GPU to run on; `reason` is a clause without a full stop."""
    return GmgError(f"no GPU: {reason}; run on the CPU with --cpu N, or try `gmg-tui demo`")


def _slot(gpu: Gpu) -> Slot:
    if gpu.mig_index is None:
        return Slot(f"gpu{gpu.index}", SlotKind.GPU, gpu)
    return Slot(f"gpu{gpu.index}-mig{gpu.mig_index}", SlotKind.MIG, gpu)


def _first(number: int, allowed: tuple[Gpu, ...], usable: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    if number == 0:
        raise GmgError("--gpus 0: ask for 1 or more, or use --cpu N")
    if number > len(allowed):
        there = f"there {'is' if len(allowed) == 1 else 'are'} {count(len(allowed), 'GPU')}"
        if len(allowed) < len(usable):
            there += f" (CUDA_VISIBLE_DEVICES={visible} leaves {len(allowed)} of {len(usable)})"
        raise GmgError(f"--gpus {number}: {there}; ask for at most {len(allowed)}")
    return allowed[:number]


def _listed(known: tuple[Gpu, ...], wanted: str, allowed: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    chosen = _resolve(known, wanted, f"--gpus {wanted}")
    if not chosen:
        raise GmgError(f"--gpus {wanted!r}: give `all`, a count, or a list of indices or UUIDs such as 0,2")
    for gpu in chosen:
        if gpu not in allowed:
            raise GmgError(
                f"--gpus {wanted}: CUDA_VISIBLE_DEVICES={visible} hides {_slot(gpu).name}; choose another or unset it"
            )
    return chosen


def _visible(known: tuple[Gpu, ...], visible: str) -> tuple[Gpu, ...]:
    entries = [entry.strip() for entry in visible.split(",")]
    end = next((at for at, entry in enumerate(entries) if entry in _HIDE_ALL), len(entries))
    return _resolve(known, ",".join(entries[:end]), f"CUDA_VISIBLE_DEVICES={visible}")


def _resolve(known: tuple[Gpu, ...], wanted: str, where: str) -> tuple[Gpu, ...]:
    """The GPUs and instances that a list names, in its order, each once."""
    chosen: list[Gpu] = []
    for entry in filter(None, (entry.strip() for entry in wanted.split(","))):
        for gpu in _named(known, entry, where):
            if gpu in chosen:
                raise GmgError(f"{where}: {entry} names {_slot(gpu).name} a second time; name each GPU once")
            chosen.append(gpu)
    return tuple(chosen)


def _named(known: tuple[Gpu, ...], entry: str, where: str) -> tuple[Gpu, ...]:
    if entry.isdecimal():
        named = [gpu for gpu in known if gpu.index == int(entry) and gpu.mig_index is None]
    elif old := _OLD_MIG.fullmatch(entry):
        ids = (int(old["gpu"]), int(old["compute"]))
        named = [gpu for gpu in known if gpu.parent_uuid == old["parent"] and gpu.mig_ids == ids]
    else:
        named = [gpu for gpu in known if entry.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(entry)]
    if not named:
        raise GmgError(f"{where}: no GPU is {entry}; there {_there(known)}")
    if len(named) > 1:
        raise GmgError(f"{where}: {entry} is the beginning of {len(named)} UUIDs; write more of it")
    chosen = named[0]
    if not chosen.mig:
        return (chosen,)
    instances = tuple(gpu for gpu in known if gpu.parent_uuid == chosen.uuid)
    if instances:
        return instances
    raise GmgError(f"{where}: GPU {chosen.index} is in MIG mode and has no instance; make some with `nvidia-smi mig`")


def _there(known: tuple[Gpu, ...]) -> str:
    indices = [gpu.index for gpu in known if gpu.mig_index is None]
    if len(indices) == 1:
        return f"is GPU {indices[0]} only"
    gapless = indices == list(range(len(indices)))
    listed = f"0 to {indices[-1]}" if gapless else ", ".join(map(str, indices))
    return f"are GPUs {listed} (`gmg-tui gpus` shows them)"
