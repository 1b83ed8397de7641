"""A job of a sweep: writes down when it ran and on which card, and reports a result.

Starts in some 30 ms with the standard library alone.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

_KEPT = ("CUDA_VISIBLE_DEVICES", "GMG_SLOT", "GMG_JOB", "GMG_JOB_NAME", "GMG_ATTEMPT", "GMG_SESSION")


def _write(mark: Path, seen: dict[str, object]) -> None:
    """At once: others read it meanwhile, and count the files of its folder."""
    unfinished = mark.parent.with_name(f".{mark.parent.name}-{mark.name}")
    unfinished.write_text(json.dumps(seen))
    unfinished.replace(mark)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--marks", type=Path, help="folder for one file for each attempt: what it saw, when it began and ended")
    add("--s", type=float, default=0.0, help="seconds that it takes")
    add("--until", default="", help="a file that it waits for")
    add("--value", default="", help="goes into the marks and the result")
    add("--fail", type=int, default=0, help="exit code of the first attempts")
    add("--fail-attempts", type=int, default=1 << 30, help="how many attempts fail")
    add("--oom", action="store_true", help="die as torch does when the card's memory is full")
    add("--result", action="store_true", help="report a result")
    options = parser.parse_args()
    seen: dict[str, object] = {name: os.environ[name] for name in _KEPT if name in os.environ}
    mark = options.marks / f"{os.environ.get('GMG_JOB', '0')}-{os.getpid()}.json" if options.marks else None
    seen |= {"value": options.value, "cwd": str(Path.cwd()), "began": time.monotonic()}
    if mark is not None:
        _write(mark, seen)
    if options.s:
        time.sleep(options.s)
    while options.until and not Path(options.until).exists():
        time.sleep(0.02)
    if options.oom:
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB.", file=sys.stderr)
        return 1
    if options.result:
        print(f"gmg:result {json.dumps({'score': len(options.value) / 8, 'deep': {'a': [1]}})}")
    fails = options.fail and int(os.environ.get("GMG_ATTEMPT", "1")) <= options.fail_attempts
    if mark is not None:
        _write(mark, seen | {"ended": time.monotonic(), "exit": options.fail if fails else 0})
    return options.fail if fails else 0


if __name__ == "__main__":
    sys.exit(main())
