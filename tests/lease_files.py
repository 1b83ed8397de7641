"""The files of GPU leases that engines leave behind when a test kills them."""

from collections.abc import Iterable

from gmg_tui.machine.gpu.free import SHARED_FOLDERS


def remove_leases(uuids: Iterable[str]) -> None:
    for file in (file for folder in SHARED_FOLDERS for uuid in uuids for file in folder.glob(f"gmg-tui-*{uuid}.lock")):
        file.unlink()
