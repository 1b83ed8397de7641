"""A worker's environment."""

import pytest

from gmg_tui.model import Gpu, Slot
from gmg_tui.scripts.genesis.environ import Environment, task_variables, worker_environment

CARD = Slot("gpu3", Gpu(3, "GPU-1234", "NVIDIA H100"))
MIG = Slot("gpu0-mig1", Gpu(0, "MIG-5678", "NVIDIA A100 MIG 1g.5gb", mig_index=1))
CPU = Slot("cpu1")

OURS = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "6",
    "QD_NUM_THREADS": "6",
    "GMG_SLOT": "",
}


def environment(
    slot: Slot,
    base: dict[str, str] | None = None,
    *,
    gpu_index: int | None = None,
    egl_index: int | None = None,
    extra: dict[str, str] | None = None,
    robosuite: bool = False,
) -> Environment:
    return worker_environment(
        base or {},
        slot,
        own={"GMG_SLOT": slot.name},
        gpu_index=gpu_index,
        egl_index=egl_index,
        threads=6,
        extra=extra or {},
        robosuite=robosuite,
    )


_ON_A_CARD = {"GMG_SLOT": "gpu3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_SELECTORS = ("CUDA_VISIBLE_DEVICES", "TI_VISIBLE_DEVICE", "QD_VISIBLE_DEVICE")
_EGL = ("EGL_DEVICE_ID", "MUJOCO_EGL_DEVICE_ID")
_BASE = dict.fromkeys((*_SELECTORS, *_EGL), "0")


@pytest.mark.parametrize(
    ("slot", "gpu_index", "egl_index", "chosen", "unset"),
    [
        (CARD, 5, 1, _ON_A_CARD | dict.fromkeys(_SELECTORS, "5") | dict.fromkeys(_EGL, "1"), ()),
        (CARD, 3, None, _ON_A_CARD | dict.fromkeys(_SELECTORS, "3"), _EGL),
        (MIG, 0, None, _ON_A_CARD | {"GMG_SLOT": "gpu0-mig1", "CUDA_VISIBLE_DEVICES": "MIG-5678"}, (*_SELECTORS[1:], *_EGL)),
        (CPU, None, None, {"GMG_SLOT": "cpu1", "CUDA_VISIBLE_DEVICES": ""}, ()),
    ],
    ids=["by index", "no EGL device known", "MIG", "CPU"],
)  # fmt: skip
def test_a_worker_sees_only_its_device(
    slot: Slot, gpu_index: int | None, egl_index: int | None, chosen: dict[str, str], unset: tuple[str, ...]
) -> None:
    made = environment(slot, _BASE, gpu_index=gpu_index, egl_index=egl_index)
    assert (made.set, made.unset) == (OURS | chosen, unset)
    assert made.full == {name: value for name, value in _BASE.items() if name not in unset} | made.set


def test_thread_counts_set_by_the_user_are_kept() -> None:
    made = environment(CPU, {"OMP_NUM_THREADS": "32"})
    assert made.full["OMP_NUM_THREADS"] == "32"
    assert made.full["QD_NUM_THREADS"] == "6"
    assert "OMP_NUM_THREADS" not in made.set


def test_user_variables_override_all_but_those_of_gmg_tui() -> None:
    extra = {
        "CUDA_VISIBLE_DEVICES": "7",
        "EGL_DEVICE_ID": "2",
        "OMP_NUM_THREADS": "1",
        "GMG_SLOT": "x",
        "GMG_MINE": "y",
    }
    made = environment(CARD, {"EGL_DEVICE_ID": "0"}, gpu_index=3, extra=extra)
    assert made.full["CUDA_VISIBLE_DEVICES"] == "7"
    assert made.full["EGL_DEVICE_ID"] == "2"
    assert made.full["OMP_NUM_THREADS"] == "1"
    assert made.full["GMG_SLOT"] == "gpu3"
    assert "GMG_MINE" not in made.full
    assert made.unset == ("MUJOCO_EGL_DEVICE_ID",)


OUTER = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_CPUS_PER_TASK": "8",
    "HOME": "/h",
    "PMIX": "x",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_NPROCS": "2",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_STEPID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "PMI_RANK": "1",
    "PMIX_NAMESPACE": "slurm.pmix.77.0",
    "OMPI_COMM_WORLD_RANK": "1",
}
TASK = sorted(list(OUTER)[6:])
"""The variables of `OUTER` that identify gmg-tui's task in the outer step."""


def test_a_worker_has_variables_of_the_allocation_but_not_of_the_outer_step() -> None:
    made = environment(CPU, OUTER)
    assert sorted(made.unset) == TASK == list(task_variables(OUTER))
    assert set(OUTER) - set(made.full) == set(TASK)
    assert made.full["SLURM_JOB_ID"] == "77"


def test_a_missing_gpu_is_not_replaced_by_gpu_0() -> None:
    with pytest.raises(ValueError, match="gpu3"):
        environment(CARD, gpu_index=None)


def test_mujoco_egl_device_id_is_unset_for_robosuite() -> None:
    made = environment(CARD, _BASE, gpu_index=3, egl_index=1, robosuite=True)
    assert made.full["EGL_DEVICE_ID"] == "1"
    assert "MUJOCO_EGL_DEVICE_ID" in made.unset
    assert "MUJOCO_EGL_DEVICE_ID" not in made.full
    given = environment(CARD, gpu_index=3, egl_index=1, robosuite=True, extra={"MUJOCO_EGL_DEVICE_ID": "7"})
    assert given.full["MUJOCO_EGL_DEVICE_ID"] == "7"


def test_the_outer_encoding_is_not_the_workers() -> None:
    made = environment(CPU, {"PYTHONIOENCODING": "latin-1"})
    assert ("PYTHONIOENCODING" in made.unset, "PYTHONIOENCODING" in made.full) == (True, False)
    assert environment(CPU, {}).unset == ()
    chosen = environment(CPU, {"PYTHONIOENCODING": "latin-1"}, extra={"PYTHONIOENCODING": "utf-8"})
    assert (chosen.full["PYTHONIOENCODING"], chosen.unset) == ("utf-8", ())
