"""`python -m tests.benchmarks [PART]`: measures, and prints the tables of the README."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.benchmarks import aims, cold_start, differ, flood, nodes, profiles, speed, sweeping, table
from tests.benchmarks.ground import ground, machine
from tests.benchmarks.programs import peers
from tests.benchmarks.report import say

PARTS = ("table", "flood", "speed", "queue", "nodes", "start", "differ", "profile")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    add = parser.add_argument
    add("part", nargs="?", choices=(*PARTS, "all"), default="all", help="what to measure (default: %(default)s)")
    add("--quick", action="store_true", help="each once and briefly: to see that it works, not to quote")
    for name in ("nvitop", "nvtop", "mprocs"):
        add(f"--{name}", type=Path, metavar="PATH", help=f"where {name} is (default: on PATH)")
    add("--py-spy", type=Path, metavar="PATH", help="where py-spy is, for the profiles (default: on PATH)")
    return parser.parse_args()


def main() -> None:
    """Measure what is asked for."""
    options = parse()
    parts = PARTS if options.part == "all" else (options.part,)
    began = time.monotonic()
    with ground() as place:
        print(f"{machine()}\n")
        if "table" in parts:
            found, missing = peers({name: getattr(options, name) for name in ("nvitop", "nvtop", "mprocs")})
            print("".join(f"{line}\n" for line in missing))
            effort = table.QUICK if options.quick else table.FULL
            compared = table.compare(place, found, effort)
            table.print_comparison(compared)
            print()
            aims.run(place, compared, found, effort)
            print()
            table.print_cases(table.cases(place, found, effort))
            print()
        if "flood" in parts:
            flood.run(place, quick=options.quick)
        if "speed" in parts:
            speed.run(place, quick=options.quick)
        if "queue" in parts:
            sweeping.run(place, quick=options.quick)
        if "nodes" in parts:
            nodes.run(place, quick=options.quick)
        if "start" in parts:
            cold_start.run(place, quick=options.quick)
        if "differ" in parts:
            differ.run(place, quick=options.quick)
        if "profile" in parts:
            profiles.run(place, options.py_spy, quick=options.quick)
    say(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
