"""`python -m tests.benchmarks`: measures the budget and prints it as one table, beside nvitop and mprocs."""

import argparse
import time
from pathlib import Path

from tests.benchmarks import counted_step, flood, nodes, speed, table
from tests.benchmarks.ground import ground, machine
from tests.benchmarks.programs import peers
from tests.benchmarks.report import markdown, progress

PARTS = ("table", "flood", "speed", "step", "nodes")
PEERS = ("nvitop", "mprocs")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=(*PARTS, []), help="what to measure (default: everything)")
    parser.add_argument("--quick", action="store_true", help="once and briefly: to see that it works, not to quote")
    for name in PEERS:
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=f"where {name} is (default: on PATH)")
    options = parser.parse_args()
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n", flush=True)
    rows = []
    with ground() as base:
        for part in options.part or PARTS:
            if part == "table":
                available, missing = peers({name: getattr(options, name) for name in PEERS})
                progress("\n".join(missing))
                rows += table.run(base, available, table.QUICK if options.quick else table.FULL)
            else:
                rows += {"flood": flood, "speed": speed, "step": counted_step, "nodes": nodes}[part].run(
                    base, quick=options.quick
                )
    print(markdown(rows))
    progress(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
