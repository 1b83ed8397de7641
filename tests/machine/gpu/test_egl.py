"""The map of EGL devices, by the real helper process on the simulated and the installed libEGL."""

import asyncio
import ctypes.util
from pathlib import Path
from unittest.mock import MagicMock

import psutil
import pytest

from gmg_tui.machine.gpu.egl import EglDevice, EglMap, EglProbe, probe
from gmg_tui.machine.gpu.egl_probe import pci_address
from gmg_tui.model import Gpu
from tests.patience import eventually


@pytest.fixture
def egl(egl_library: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The simulated libEGL for the helper; `GMG_EGL_SIM` describes its devices."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(egl_library))
    return monkeypatch


def card(index: int, pci: str | None = None) -> Gpu:
    return Gpu(index=index, uuid=f"GPU-{index}", name="H100", pci_bus_id=pci)


def _children() -> set[psutil.Process]:
    """The processes that pytest has started; other tests may have left some that nobody has waited for."""
    return set(psutil.Process().children())


async def test_each_card_is_mapped_by_its_cuda_ordinal_regardless_of_visible_devices(egl: pytest.MonkeyPatch) -> None:
    egl.setenv("GMG_EGL_SIM", "software,2,0,3,1")
    egl.setenv("CUDA_VISIBLE_DEVICES", "3")
    mapping = await probe()
    assert [mapping.index_of(card(index))[0] for index in range(5)] == [2, 4, 1, 3, None]
    assert mapping.index_of(card(0))[1] == "EGL device 2 has CUDA ordinal 0"
    assert mapping.index_of(card(4))[1] == "none of 5 EGL devices matches this GPU"


async def test_a_crashing_driver_is_only_reported(egl: pytest.MonkeyPatch) -> None:
    egl.setenv("GMG_EGL_SIM", "crash")
    assert (await probe()).index_of(card(0)) == (None, "EGL crashed its helper process (SIGSEGV)")


async def test_a_hanging_driver_times_out_and_its_process_is_reaped(egl: pytest.MonkeyPatch) -> None:
    egl.setenv("GMG_EGL_SIM", "hang")
    before = _children()
    assert (await probe(timeout_s=0.2)).index_of(card(0)) == (None, "EGL did not answer within 0.2 s")
    await eventually(lambda: _children() <= before)


async def test_egl_is_unknown_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        asyncio, "create_subprocess_exec", MagicMock(side_effect=RuntimeError("can't start new thread"))
    )
    assert (await EglProbe()).index_of(card(0)) == (None, "cannot ask EGL: can't start new thread")


async def test_a_cancelled_probe_leaves_no_process(egl: pytest.MonkeyPatch) -> None:
    egl.setenv("GMG_EGL_SIM", "hang")
    before = _children()
    task = asyncio.create_task(probe(timeout_s=600))
    while _children() <= before:  # noqa: ASYNC110 - the helper's start is no event of ours
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: _children() <= before)


@pytest.mark.process
@pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="no libEGL on this machine")
async def test_the_installed_library_answers_and_invents_no_card() -> None:
    mapping = await probe()
    assert mapping.error is None
    assert mapping.index_of(card(4096, "0000ffff:ff:00.0"))[0] is None


def test_the_pci_address_corrects_a_wrong_ordinal() -> None:
    mapping = EglMap(
        (EglDevice(), EglDevice(cuda=0, pci="0000:2b:00.0"), EglDevice(pci="0000:1b:00.0"), EglDevice(cuda=2))
    )
    assert mapping.index_of(card(0, "00000000:1B:00.0")) == (2, "EGL device 2 has PCI address 0000:1b:00.0")
    assert mapping.index_of(card(1, "00000000:2B:00.0"))[0] == 1
    assert mapping.index_of(card(2, "00000000:3B:00.0"))[0] == 3
    assert mapping.index_of(card(3, "00000000:4B:00.0"))[0] is None


def test_a_mig_instance_has_no_egl_device() -> None:
    instance = Gpu(index=0, uuid="MIG-1", name="1g.10gb", mig_index=0, parent_uuid="GPU-0")
    assert EglMap((EglDevice(cuda=0),)).index_of(instance) == (None, "MIG instances have no graphics")


def test_a_drm_node_leads_to_its_pci_address(tmp_path: Path) -> None:
    device = tmp_path / "devices" / "pci0000:15" / "0000:1b:00.0"
    device.mkdir(parents=True)
    node = tmp_path / "class" / "drm" / "card1"
    node.mkdir(parents=True)
    (node / "device").symlink_to(device)
    assert pci_address("/dev/dri/card1", tmp_path) == "0000:1b:00.0"
    assert pci_address("/dev/dri/card2", tmp_path) is None
