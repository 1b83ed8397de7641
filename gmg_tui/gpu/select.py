"""Which cards become slots: `--gpus`, and an outer `CUDA_VISIBLE_DEVICES`."""

from __future__ import annotations

from gmg_tui.errors import GmgError
from gmg_tui.model import Gpu, Slot, SlotKind
from gmg_tui.units import count

_HIDE_ALL = frozenset({"-1", "NoDevFiles"})
"""Entries by which people and Slurm say "no more": CUDA takes nothing from them on."""


def slots(cards: tuple[Gpu, ...], gpus: str | None, visible: str | None) -> tuple[Slot, ...]:
    """The slots to run on, in the order asked for.

    A card in MIG mode stands for its instances, since CUDA runs nothing on it as a whole; its index selects them all.

    Args:
        cards: As `Nvml.cards` gives them.
        gpus: `--gpus`: `all` or None; a number, which is a count (the first so many); a list with a comma (`0,` is a list
            of one) of NVML indices, as nvidia-smi shows them, and UUIDs, which may be cut short.
        visible: The outer `CUDA_VISIBLE_DEVICES`: None allows all. Its indices are taken as NVML's
            (`CUDA_DEVICE_ORDER=PCI_BUS_ID`). CUDA itself stops in silence at an entry that it does not know; here that is
            an error, for fewer workers than asked for must not go unseen.

    Raises:
        GmgError: There is no GPU, or not what was asked for.
    """
    usable = tuple(card for card in cards if not card.mig)
    if not usable:
        raise no_gpu(_why_none(cards))
    allowed = usable if visible is None else _visible(cards, visible)
    if not allowed:
        raise no_gpu(f"CUDA_VISIBLE_DEVICES={visible} hides all {len(usable)}")
    wanted = (gpus or "all").strip()
    if wanted == "all":
        chosen = allowed
    elif wanted.isdecimal():
        chosen = _first(int(wanted), allowed, usable, visible)
    else:
        chosen = _listed(cards, wanted, allowed, visible)
    return tuple(_slot(gpu) for gpu in chosen)


def cpu_slots(number: int) -> tuple[Slot, ...]:
    """`number` slots that share the CPU.

    Raises:
        GmgError: `number` is less than one.
    """
    if number < 1:
        raise GmgError(f"--cpu {number}: give the number of CPU slots, 1 or more")
    return tuple(Slot(name=f"cpu{index}", kind=SlotKind.CPU) for index in range(number))


def no_gpu(reason: str) -> GmgError:
    """The error for a machine, or a moment, without a GPU to run on; `reason` is a clause without a full stop."""
    return GmgError(f"no GPU: {reason}; run on the CPU with --cpu N, or try `gmg-tui demo`")


def _why_none(cards: tuple[Gpu, ...]) -> str:
    if not cards:
        return "NVML shows none"
    return "every card is in MIG mode and has no instance (make some with `nvidia-smi mig`)"


def _slot(gpu: Gpu) -> Slot:
    if gpu.mig_index is None:
        return Slot(name=f"gpu{gpu.index}", kind=SlotKind.GPU, gpu=gpu)
    return Slot(name=f"gpu{gpu.index}-mig{gpu.mig_index}", kind=SlotKind.MIG, gpu=gpu)


def _first(number: int, allowed: tuple[Gpu, ...], usable: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    if number == 0:
        raise GmgError("--gpus 0: ask for 1 or more, or use --cpu N")
    if number > len(allowed):
        there = f"there {'is' if len(allowed) == 1 else 'are'} {count(len(allowed), 'GPU')}"
        if len(allowed) < len(usable):
            there += f" (CUDA_VISIBLE_DEVICES={visible} leaves {len(allowed)} of {len(usable)})"
        raise GmgError(f"--gpus {number}: {there}; ask for at most {len(allowed)}")
    return allowed[:number]


def _listed(cards: tuple[Gpu, ...], wanted: str, allowed: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    chosen = _resolve(cards, wanted, f"--gpus {wanted}")
    if not chosen:
        raise GmgError(f"--gpus {wanted!r}: give `all`, a count, or a list of indices or UUIDs such as 0,2")
    for gpu in chosen:
        if gpu not in allowed:
            raise GmgError(
                f"--gpus {wanted}: CUDA_VISIBLE_DEVICES={visible} hides {_slot(gpu).name}; choose another or unset it"
            )
    return chosen


def _visible(cards: tuple[Gpu, ...], visible: str) -> tuple[Gpu, ...]:
    entries = [entry.strip() for entry in visible.split(",")]
    end = next((at for at, entry in enumerate(entries) if entry in _HIDE_ALL), len(entries))
    return _resolve(cards, ",".join(entries[:end]), f"CUDA_VISIBLE_DEVICES={visible}")


def _resolve(cards: tuple[Gpu, ...], wanted: str, where: str) -> tuple[Gpu, ...]:
    """The cards and instances that a list names, in its order, each once."""
    chosen: list[Gpu] = []
    for entry in filter(None, (entry.strip() for entry in wanted.split(","))):
        for gpu in _named(cards, entry, where):
            if gpu in chosen:
                raise GmgError(f"{where}: {entry} names {_slot(gpu).name} a second time; name each GPU once")
            chosen.append(gpu)
    return tuple(chosen)


def _named(cards: tuple[Gpu, ...], entry: str, where: str) -> tuple[Gpu, ...]:
    if entry.isdecimal():
        named = [card for card in cards if card.index == int(entry) and card.mig_index is None]
    else:
        named = [card for card in cards if entry.startswith(("GPU-", "MIG-")) and card.uuid.startswith(entry)]
    if not named:
        raise GmgError(f"{where}: no GPU is {entry}; there {_there(cards)}")
    if len(named) > 1:
        raise GmgError(f"{where}: {entry} is the beginning of {len(named)} UUIDs; write more of it")
    card = named[0]
    if not card.mig:
        return (card,)
    instances = tuple(gpu for gpu in cards if gpu.parent_uuid == card.uuid)
    if not instances:
        raise GmgError(f"{where}: GPU {card.index} is in MIG mode and has no instance; make some with `nvidia-smi mig`")
    return instances


def _there(cards: tuple[Gpu, ...]) -> str:
    indices = [card.index for card in cards if card.mig_index is None]
    if len(indices) == 1:
        return f"is GPU {indices[0]} only"
    if indices == list(range(len(indices))):
        return f"are GPUs 0 to {len(indices) - 1} (`gmg-tui gpus` shows them)"
    return f"are GPUs {', '.join(map(str, indices))} (`gmg-tui gpus` shows them)"
