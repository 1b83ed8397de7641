"""Films the screen as one animated SVG, which draws an element once for all consecutive frames that contain it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from textual.app import App

_BODY = re.compile(r'<g transform="[^"]*" clip-path="url\(#terminal-\d+-clip-terminal\)">')
_ELEMENT = re.compile(r'<rect fill="[^"]*" x[^>]*/>|<text class="terminal-[^>]*>[^<]*</text>')
_STYLE = re.compile(r"\.(terminal-\d+-r\d+) \{ ([^}]*?) ?\}")
_CLASS = re.compile(r'class="(terminal-\d+-r\d+)"')
_UNNEEDED_ATTRIBUTE = re.compile(r' clip-path="[^"]*"| shape-rendering="[^"]*"')
_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)


class Film:
    """The frames so far, each with its elements."""

    def __init__(self) -> None:
        self._frames: list[dict[str, None]] = []
        self._starts_s = [0.0]
        self._head = ""
        self._classes: dict[str, str] = {}
        """Class names by style."""

    @property
    def seconds(self) -> float:
        """Length of the film."""
        return self._starts_s[-1]

    def shoot(self, app: App[Any], seconds: float) -> None:
        """Adds a frame: the current screen, shown for `seconds`."""
        svg = app.export_screenshot()
        body = _BODY.search(svg)
        assert body is not None
        self._head = self._head or _FONT.sub("", _STYLE.sub("", svg[: body.start()])) + body[0]
        styles = dict(_STYLE.findall(svg))

        def rename(match: re.Match[str]) -> str:
            return f'class="{self._classes.setdefault(styles[match[1]], f"s{len(self._classes)}")}"'

        elements = (
            _UNNEEDED_ATTRIBUTE.sub("", _CLASS.sub(rename, element)) for element in _ELEMENT.findall(svg, body.end())
        )
        self._frames.append(dict.fromkeys(elements))
        self._starts_s.append(self.seconds + seconds)

    def svg(self) -> str:
        """Returns the film, which repeats forever."""
        first_frames: dict[str, int] = {}
        spans: dict[tuple[int, int], list[str]] = defaultdict(list)
        for number, elements in enumerate([*self._frames, dict[str, None]()]):
            for element in [element for element in first_frames if element not in elements]:
                spans[first_frames.pop(element), number].append(element)
            for element in elements:
                first_frames.setdefault(element, number)
        rules = [f".{name}{{{style}}}" for style, name in self._classes.items()]
        rules += [f".f{{visibility:hidden;animation:{self.seconds:g}s step-end infinite}}"]
        groups = {"rect": "", "text": ""}
        for (first, end), elements in sorted(spans.items()):
            rules.append(self._rule(first, end))
            for tag in groups:
                drawn = "".join(element for element in elements if element.startswith(f"<{tag}"))
                always = (first, end) == (0, len(self._frames))
                groups[tag] += drawn if always or not drawn else f'<g class="f f{first}-{end}">{drawn}</g>'
        head = re.sub(r"\n\s*", "\n", self._head).replace("</style>", f"{''.join(rules)}</style>")
        name = re.search(r"terminal-\d+", head)
        assert name is not None
        body = f'{head}{groups["rect"]}<g class="{name[0]}-matrix">{groups["text"]}</g></g></svg>'
        return body.replace(name[0], "t").replace("&#160;", "\N{NO-BREAK SPACE}")

    def _rule(self, first: int, end: int) -> str:
        """Returns the CSS that makes a group visible from frame `first` to the one before `end`."""
        start, stop = (f"{100 * self._starts_s[number] / self.seconds:.2f}%" for number in (first, end))
        before = "0%{visibility:hidden}" if first else ""
        after = f"{stop}{{visibility:hidden}}" if end < len(self._frames) else ""
        frames = f"{before}{start}{{visibility:visible}}{after}"
        return f".f{first}-{end}{{animation-name:f{first}-{end}}}@keyframes f{first}-{end}{{{frames}}}"
