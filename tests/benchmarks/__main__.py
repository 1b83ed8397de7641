"""`python -m tests.benchmarks`: measures DESIGN.md's budget and prints it as one table, beside nvitop and mprocs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.benchmarks import flood, nodes, speed, table
from tests.benchmarks.ground import ground, machine
from tests.benchmarks.programs import peers
from tests.benchmarks.report import markdown, progress

PARTS = ("table", "flood", "speed", "nodes")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=(*PARTS, []), help="what to measure (default: everything)")
    parser.add_argument(
        "--quick", action="store_true", help="each once and briefly: to see that it works, not to quote"
    )
    for name in ("nvitop", "mprocs"):
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=f"where {name} is (default: on PATH)")
    return parser.parse_args()


def main() -> None:
    """Measures, and prints the table."""
    options = parse()
    parts = options.part or PARTS
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n", flush=True)
    rows = []
    with ground() as base:
        if "table" in parts:
            found, missing = peers({name: getattr(options, name) for name in ("nvitop", "mprocs")})
            for line in missing:
                progress(line)
            rows += table.run(base, found, table.QUICK if options.quick else table.FULL)
        if "flood" in parts:
            rows += flood.run(base, quick=options.quick)
        if "speed" in parts:
            rows += speed.run(base, quick=options.quick)
        if "nodes" in parts:
            rows += nodes.run(base, quick=options.quick)
    print(markdown(rows))
    progress(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
