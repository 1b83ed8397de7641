"""Detects workers that write the same files, or are likely to because they get the same arguments."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePath

from gmg_tui.model import Severity, Sign, units

_EVENTS_PREFIX = "events.out.tfevents."
"""Prefix of TensorBoard's event files, whose names are unique: their folder identifies the run."""
_SHARED = re.compile(
    r"/(?:\.?cache|\.nv|\.triton|__pycache__|torchinductor_\w+|wandb|mlruns|gsd|qdcache|python_side_cache)/"
    r"|\.(?:lock|pid|log|gsd|cvx|ptc|tet|rm|gnd|qdc|qdb|cubin|ptx)$"
)
"""Files that programs share on purpose, such as those of Genesis' caches, in any folder."""
_OPTION = re.compile(
    r"""['"](--?(?:seed|(?:log|out|output|save|run|exp|checkpoint|ckpt|results?)[-_]?(?:dir|folder|path|name)|exp_name))['"]"""
)
_ID_WORDS = ("GMG_", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "getpid", "uuid", "mkdtemp", "time()", "strftime", "hydra")
"""Words that suggest that a script tells workers with the same arguments apart."""


def exclusive_paths(paths: Iterable[str]) -> set[str]:
    """Returns the paths that only one worker should write: files, and the folders of TensorBoard's event files."""
    unshared = (path for path in paths if _SHARED.search(path) is None)
    return {str(PurePath(path).parent) if PurePath(path).name.startswith(_EVENTS_PREFIX) else path for path in unshared}


def find_collisions(written: Mapping[str, Collection[str]], groups: Mapping[str, str]) -> dict[str, Sign]:
    """Returns a sign, by slot, for each worker that writes the same path as another one on the same node.

    Args:
        written: The paths that workers write, by slot.
        groups: The groups of workers, by slot; ranks of a group may write the same paths.
    """
    writers: dict[tuple[str, str], list[str]] = {}
    for slot, paths in written.items():
        for path in paths:
            writers.setdefault((path, slot.rpartition("/")[0]), []).append(slot)
    signs: dict[str, Sign] = {}
    for (path, _), slots in sorted(writers.items()):
        if len({groups.get(slot, slot) for slot in slots}) > 1:
            text = f"{', '.join(slots[:-1])} and {slots[-1]} write {path}"
            signs |= {
                slot: Sign("collision", text, "add {i} or {slot} to the path") for slot in slots if slot not in signs
            }
    return signs


def find_same_arguments(source: str, args: Sequence[str], workers: int) -> Sign | None:
    """Returns a sign if a script's source and arguments suggest that all workers compute or write the same things."""
    if workers < 2 or any("{" in arg for arg in args) or any(word in source for word in _ID_WORDS):
        return None
    options = dict.fromkeys(match[1] for match in _OPTION.finditer(source))
    if not options:
        return None
    hints = [f"{option} {'{seed}' if 'seed' in option else 'run-{i}'}" for option in options]
    text = f"{units.count(workers, 'worker')} get the same arguments; the script takes {', '.join(options)}"
    return Sign("collision", text, f"add {' '.join(hints[:2])}", Severity.INFO)
