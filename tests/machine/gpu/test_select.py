"""The choice of slots."""

import pytest

from gmg_tui.machine.gpu.selection import cpu_slots, slots, warning
from gmg_tui.model import Gpu
from gmg_tui.model.errors import GmgError

UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44")
CARDS = tuple(Gpu(index=index, uuid=uuid, name="H100") for index, uuid in enumerate(UUIDS))

MIG_CARD = Gpu(index=1, uuid="GPU-mm", name="H100", mig=True)
INSTANCES = tuple(
    Gpu(index=1, uuid=f"MIG-{index}f", name="1g.10gb", mig_index=index, parent_uuid=MIG_CARD.uuid) for index in (0, 1)
)
MIXED = (CARDS[0], MIG_CARD, *INSTANCES, Gpu(index=2, uuid="GPU-zz", name="H100"))


@pytest.mark.parametrize(
    ("gpus", "visible", "names"),
    [
        (None, None, "gpu0 gpu1 gpu2 gpu3"),
        ("all", None, "gpu0 gpu1 gpu2 gpu3"),
        ("2", None, "gpu0 gpu1"),
        ("4", None, "gpu0 gpu1 gpu2 gpu3"),
        ("2,", None, "gpu2"),
        ("3,0", None, "gpu3 gpu0"),
        (" 1 , 2 ", None, "gpu1 gpu2"),
        ("GPU-bb33,GPU-aa1", None, "gpu2 gpu0"),
        ("GPU-b", None, "gpu2"),
        ("0,GPU-cc", None, "gpu0 gpu3"),
        (None, "2,0", "gpu2 gpu0"),
        ("1", "2,0", "gpu2"),
        ("0,", "2,0", "gpu0"),
        (None, "GPU-bb33,1", "gpu2 gpu1"),
        (None, "1,-1,2", "gpu1"),
    ],
)
def test_slots_follow_the_requested_order(gpus: str | None, visible: str | None, names: str) -> None:
    assert " ".join(slot.name for slot in slots(CARDS, gpus, visible)) == names


@pytest.mark.parametrize(
    ("gpus", "visible", "names"),
    [
        (None, None, "gpu0 gpu1-mig0 gpu1-mig1 gpu2"),
        ("1,2", None, "gpu1-mig0 gpu1-mig1 gpu2"),
        ("MIG-1f,0", None, "gpu1-mig1 gpu0"),
        ("3", None, "gpu0 gpu1-mig0 gpu1-mig1"),
        (None, "MIG-1f", "gpu1-mig1"),
        (None, "1", "gpu1-mig0 gpu1-mig1"),
    ],
)
def test_a_card_in_mig_mode_selects_its_instances(gpus: str | None, visible: str | None, names: str) -> None:
    selected = slots(MIXED, gpus, visible)
    assert " ".join(slot.name for slot in selected) == names
    assert all(slot.is_mig == (slot.gpu in INSTANCES) for slot in selected)


@pytest.mark.parametrize(
    ("gpus", "visible", "words"),
    [
        ("5", None, "there are 4 GPUs; ask for at most 4"),
        ("3", "0,1", "there are 2 GPUs (CUDA_VISIBLE_DEVICES=0,1 leaves 2 of 4)"),
        ("0", None, "--gpus 0"),
        ("0,4", None, "no GPU matches 4; the GPUs are 0, 1, 2, 3"),
        ("GPU-aa", None, "GPU-aa matches 2 UUIDs; give more characters"),
        ("GPU-xx", None, "no GPU matches GPU-xx"),
        ("0,0", None, "names gpu0 a second time"),
        ("0,GPU-aa11", None, "names gpu0 a second time"),
        ("-1", None, "no GPU matches -1"),
        ("four", None, "no GPU matches four"),
        (",", None, "a list of indices or UUIDs"),
        ("3,", "0,1", "CUDA_VISIBLE_DEVICES=0,1 hides gpu3"),
        (None, "0,9,1", "CUDA_VISIBLE_DEVICES=0,9,1: no GPU matches 9"),
        (None, "", "CUDA_VISIBLE_DEVICES= hides all 4; run on the CPU with --cpu N, or try `gmg-tui demo`"),
        (None, "-1", "hides all 4"),
        (None, "NoDevFiles", "hides all 4"),
        (None, "0,0", "names gpu0 a second time"),
    ],
)
def test_a_missing_gpu_is_an_error_of_one_line(gpus: str | None, visible: str | None, words: str) -> None:
    with pytest.raises(GmgError) as caught:
        slots(CARDS, gpus, visible)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_without_a_usable_gpu_the_alternatives_are_named() -> None:
    with pytest.raises(GmgError, match=r"NVML lists none.*--cpu N.*gmg-tui demo"):
        slots((), None, None)
    with pytest.raises(GmgError, match=r"MIG mode and has no instance.*--cpu N"):
        slots((MIG_CARD,), None, None)
    with pytest.raises(GmgError, match="GPU 1 is in MIG mode and has no instance"):
        slots((CARDS[0], MIG_CARD), "1,", None)


_SILENT = {1: "the GPU is lost", 3: "NVML: Unknown Error", 4: "NVML: Unknown Error"}
SILENT = tuple(Gpu(index, "", "", trouble=why) for index, why in _SILENT.items())
UNANSWERED = "GPU 1 does not answer (the GPU is lost); GPU 3, 4 do not answer (NVML: Unknown Error)"


def test_gpus_that_do_not_answer_are_named() -> None:
    answering = (CARDS[0], CARDS[2])
    for gpus, visible, words in (
        ("4", None, f"there are 2 GPUs; {UNANSWERED}; ask for at most 2"),
        ("0,1", None, "--gpus 0,1: GPU 1 does not answer (the GPU is lost); leave it out"),
        ("0,9", None, f"no GPU matches 9; the GPUs are 0, 2 (`gmg-tui gpus` shows them); {UNANSWERED}"),
        (None, "0,3", "CUDA_VISIBLE_DEVICES=0,3: GPU 3 does not answer (NVML: Unknown Error); leave it out"),
    ):
        with pytest.raises(GmgError) as caught:
            slots((*answering, *SILENT), gpus, visible)
        assert words in str(caught.value)
    with pytest.raises(GmgError, match="no GPU: GPU 1 does not answer"):
        slots(SILENT[:1], None, None)
    assert warning(SILENT, None, None) == warning(SILENT, "2", None) == f"{UNANSWERED}; no worker will run there"
    instance = (Gpu(0, "", "", mig_index=1, trouble="no permission"),)
    assert (
        warning(instance, None, None)
        == "GPU 0 MIG instance 1 does not answer (no permission); no worker will run there"
    )
    assert warning((), None, None) is warning(SILENT, "0,2", None) is warning(SILENT, None, "0,2") is None


def test_cpu_slots_are_counted_from_zero() -> None:
    assert [(slot.name, slot.gpu) for slot in cpu_slots(2)] == [("cpu0", None), ("cpu1", None)]
    with pytest.raises(GmgError, match="--cpu 0"):
        cpu_slots(0)
