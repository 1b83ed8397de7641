"""Formats quantities for people, and parses durations."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable

NOT_KNOWN = "–"
"""Shown for a value that is not known yet."""
NOT_SUPPORTED = "n/a"
"""Shown for a metric that the GPU does not report."""

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MAX_FULL, _MAX_SHORT = 1e12, 1e15
"""Limits of `number` and `fps`, and of `short`: larger values are in scientific notation."""
_MAX_DIGITS = 18
_DURATION = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def natural(text: str) -> int | None:
    """Parses a number of up to 18 decimal digits. Returns None for any other text."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def number(value: float) -> str:
    """Returns a number without a unit, to six significant digits: `1,234.5`, `0.00012`, `1e-07`; an integer in full.

    Floats outside 1e-4 to 1e12 are in scientific notation, so that a diverged value stands out.
    """
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 999_999.5 <= abs(value) < _MAX_FULL else f"{value:,.6g}"


def fps(value: float | None) -> str:
    """Returns FPS in full, with thousands commas: `24,013,029`; below 100 with two decimals, as Genesis prints them."""
    if value is None:
        return NOT_KNOWN
    if abs(value) >= 100:
        return f"{value:,.0f}" if abs(value) < _MAX_FULL else f"{value:.6g}"
    return f"{value:,.2f}" if abs(value) >= 0.005 or not value else f"{value:.3g}"


def short(value: float | None) -> str:
    """Returns a number with its scale in at most five characters: `24.0M`, `192M`, or `8.03k` for 8,031."""
    if value is None:
        return NOT_KNOWN
    if not abs(value) < _MAX_SHORT:
        return f"{value:.3g}"
    for scale, letter in _SCALES:
        # 999.5 or more would round to 1000 at the smaller scale.
        if abs(value) >= scale * 0.9995:
            return _three_digits(value / scale) + letter
    return _three_digits(value)


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def gib(mib: float | None) -> str:
    """Returns gibibytes with one decimal, without the unit: `30.2`."""
    return NOT_SUPPORTED if mib is None else f"{mib / 1024:.1f}"


def mib(value: float | None) -> str:
    """Returns mebibytes in a suitable unit: `512 MiB`, `30.2 GiB`, `1.5 TiB`."""
    if value is None:
        return NOT_SUPPORTED
    if value < 1023.5:
        return f"{value:.0f} MiB"
    return f"{value / 1024:.1f} GiB" if value < 1023.95 * 1024 else f"{value / 1024**2:.1f} TiB"


def size(in_bytes: float | None) -> str:
    """Returns bytes on a disk in a suitable unit: `30.2 GiB`, `24 KiB`, `0`."""
    if in_bytes is None:
        return NOT_KNOWN
    kib = math.ceil(in_bytes / 1024)
    return mib(kib / 1024) if kib >= 1024 else f"{kib} KiB" if kib else "0"


def rounded(value: float | None) -> str:
    """Returns a GPU's metric without decimals."""
    return NOT_SUPPORTED if value is None else f"{value:.0f}"


def figure(value: float | None, unit: str, missing: str = NOT_SUPPORTED) -> str:
    """Returns a metric without decimals and with its unit: `97 %`."""
    return missing if value is None else f"{value:,.0f} {unit}".rstrip()


def change(pct: float | None) -> str:
    """Returns a measured change in percent, with its sign and one decimal: `−8.2 %`, `+84.0 %`."""
    return NOT_KNOWN if pct is None else f"{pct:+.1f} %".replace("-0.0 %", "+0.0 %").replace("-", "−")


def energy(joules: float | None) -> str:
    """Returns energy in watt-hours (`6.2 Wh`, `73 Wh`, `1.4 kWh`), or in joules below 0.1 Wh."""
    if joules is None:
        return NOT_SUPPORTED
    hours = joules / 3600
    if hours < 0.1:
        return f"{joules:.0f} J"
    if hours >= 1000:
        return f"{hours / 1000:.1f} kWh"
    return f"{hours:.0f} Wh" if hours >= 10 else f"{hours:.1f} Wh"


def clock(seconds: float | None) -> str:
    """Returns a duration as `HH:MM:SS`, with days if there are any: `2d 03:04:05`."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_KNOWN
    total = max(0, int(seconds))
    days, rest = divmod(total, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}d {text}" if days else text


def span(seconds: float | None) -> str:
    """Returns a duration in at most two units: `8 s`, `3:05`, `1h 02m`, `2d 03h`."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_KNOWN
    total = max(0, int(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60}:{total % 60:02d}"
    if total < 86400:
        return f"{total // 3600}h {total // 60 % 60:02d}m"
    return f"{total // 86400}d {total // 3600 % 24:02d}h"


def duration(seconds: float | None) -> str:
    """Returns a job's duration: like `span`, but with one decimal below a minute."""
    return f"{seconds:.1f} s" if seconds is not None and seconds < 60 else span(seconds)


def time_left(seconds: float | None, write: Callable[[float | None], str] = span) -> str:
    """Returns an estimate of the time left: `3:05 left`; empty if unknown, or if it has run out."""
    return f"{write(seconds)} left" if seconds is not None and 1 <= seconds < math.inf else ""


def seconds(text: str, *, bare: bool) -> float | None:
    """Returns the seconds of a duration such as `90s`, `1.5h` or `1h30m`; infinity for `none`, None for other text.

    Reads a number without a unit as seconds if `bare`, else rejects it: `30` could mean days.
    """
    word = text.strip().lower()
    if word == "none":
        return math.inf
    if re.fullmatch(r"\d+(\.\d+)?", word):
        return float(word) if bare else None
    match = _DURATION.fullmatch(word)
    return sum(float(count) * _UNIT_S[unit] for unit, count in match.groupdict("0").items()) if match else None


def iso(moment: float) -> str:
    """Returns a Unix time as `2026-11-21T07:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def time_of_day(moment: float) -> str:
    """Returns a Unix time in local time: `02:13:05`."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def since(moment: float) -> str:
    """Returns a Unix time in local time: `02:13`, with the date if it is more than a day ago."""
    is_recent = time.time() - moment < 86400
    return time.strftime("%H:%M" if is_recent else "%Y-%m-%d %H:%M", time.localtime(moment))


def tally(names: Iterable[str]) -> str:
    """Returns the number of each name: `1 failed, 7 running`."""
    return ", ".join(f"{number:,} {name}" for name, number in sorted(Counter(names).items()))


def count(number: int, noun: str) -> str:
    """Returns a count with its noun: `1 line`, `4,096 envs`, `2 processes`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
