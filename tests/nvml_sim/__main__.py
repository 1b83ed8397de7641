"""GPUs that live, for trying gmg-tui by hand: `python -m tests.nvml_sim DIR [--gpus 8]`, ended by Ctrl+C."""

import argparse
import math
import time
from pathlib import Path

from tests.nvml_sim import Sim, build

_POWER_CAP = 0x4


def animate(sim: Sim, second: int) -> None:
    """Give each GPU the figures of `second`: waves that are out of step with one another."""
    for index, gpu in enumerate(sim.gpus):
        wave = math.sin(second / 9 + index)
        gpu.gpu_util_pct = round(85 + 14 * wave)
        gpu.memory_util_pct = round(40 + 20 * wave)
        gpu.memory_used_mib = 30211 + 4096 * math.sin(index)  # a restart waits until it no longer grows
        gpu.temperature_c = round(58 + 9 * wave)
        gpu.power_w = 560 + 140 * wave
        gpu.sm_clock_mhz = round(1755 - 120 * max(0.0, wave))
        gpu.throttle = _POWER_CAP if wave > 0.9 else 0
        gpu.fan_pct = round(40 + 15 * wave)
        gpu.pcie_rx_mib_s = 900 + 600 * wave
        gpu.pcie_tx_mib_s = 300 + 200 * wave
        gpu.gpm = {2: 40 + 30 * wave, 3: 22 + 10 * wave, 5: 3, 10: 12 + 5 * wave, 60: 4000, 61: 4100}
        gpu.energy_j = (gpu.energy_j or 0) + gpu.power_w
    sim.write()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.nvml_sim", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--gpus", type=int, default=8)
    options = parser.parse_args()
    folder = options.folder.resolve()
    sim = Sim(folder, build(folder), options.gpus)
    print(*(f"export {name}={value}" for name, value in sim.env().items()), sep="\n", flush=True)
    second = 0
    try:
        while True:
            animate(sim, second)
            second += 1
            time.sleep(1)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
