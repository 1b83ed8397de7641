"""From the file to settings, and what is wrong in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.settings.known import Known, Option
from gmg_tui.settings.source import Source

TABLES = ("options", "keys", "patterns")
THEME = "theme"


class Settings(NamedTuple):
    """What the file says, as far as it is right."""

    file: str
    options: Mapping[str, Mapping[str, Any]]
    """Of each command the values of its options, both as click calls them."""
    places: Mapping[tuple[str, str], tuple[str, ...]]
    """Of a command's option the table and the key that set it."""
    keys: Mapping[str, tuple[str, ...]]
    """Of an action its keys."""
    theme: str | None = None
    patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names or globs of scripts, each with what reads their progress lines, in the order of the file."""


class Wrong(NamedTuple):
    """Something that is wrong, and was left out of the settings."""

    line: int
    text: str


class Read(NamedTuple):
    """What the file says."""

    settings: Settings
    wrong: tuple[Wrong, ...]
    """In the order of the lines."""

    def texts(self) -> list[str]:
        """What is wrong, each with the file and the line."""
        return [f"{self.settings.file}:{one.line}: {one.text}" for one in self.wrong]


def read(source: Source, known: Known) -> Read:
    """Judge the file."""
    reader = _Reader(source, known)
    reader.read()
    settings = Settings(
        str(source.path), reader.options, reader.places, reader.keys, reader.theme, tuple(reader.patterns.items())
    )
    return Read(settings, tuple(sorted(reader.wrong)))


class _Reader:
    """Reads one file."""

    def __init__(self, source: Source, known: Known) -> None:
        self._source = source
        self._known = known
        self.wrong: list[Wrong] = []
        self.options: dict[str, dict[str, Any]] = {}
        self.places: dict[tuple[str, str], tuple[str, ...]] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.theme: str | None = None
        self.patterns: dict[str, tuple[str, ...]] = {}

    def read(self) -> None:
        """Read all of it."""
        for name, value in self._source.data.items():
            if name == THEME:
                self._read_theme(value)
            elif name not in TABLES:
                hint = next((f"; it stands in [{table}]" for table, names in self._names() if name in names), "")
                self._fails(f"there is no {name}{hint or _near(name, (*TABLES, THEME))}", name)
            elif not isinstance(value, dict):
                self._fails(f"{name} is a table: [{name}]", name)
            else:
                {"options": self._read_options, "keys": self._read_keys, "patterns": self._read_patterns}[name](value)

    def _names(self) -> Iterator[tuple[str, Iterable[str]]]:
        yield "options", {name for options in self._known.options.values() for name in options}
        yield "keys", self._known.keys()

    def _fails(self, text: str, *keys: str) -> None:
        self.wrong.append(Wrong(self._source.line(*keys), text))

    def _read_theme(self, value: object) -> None:
        themes = self._known.themes()
        if value in themes:
            self.theme = str(value)
        else:
            near = _near(value, themes) or f"; choose one of {', '.join(themes)}"
            self._fails(f"theme = {said(value)}: there is no such theme{near}", THEME)

    # Options

    def _read_options(self, table: Mapping[str, object]) -> None:
        commands = self._known.options
        for name, value in table.items():
            if not isinstance(value, dict):
                having = {command: found for command in commands if (found := self._option(command, name))}
                if not having:
                    everywhere = sorted({one for options in commands.values() for one in options})
                    self._unknown("[options]", name, everywhere, commands, name)
                self._take(having, name, value, name)
        for command, options in table.items():
            if not isinstance(options, dict):
                continue
            if command not in commands:
                near = _near(command, commands) or f"; those with options are {', '.join(commands)}"
                self._fails(f"[options.{command}]: there is no such command{near}", "options", command)
                continue
            for name, value in options.items():
                option = self._option(command, name)
                if option is None:
                    self._unknown(f"[options.{command}]", name, commands[command], (), command, name)
                else:
                    self._take({command: option}, name, value, command, name)

    def _option(self, command: str, name: str) -> Option | None:
        return self._known.options[command].get(name.replace("_", "-"))

    def _take(self, having: Mapping[str, Option], name: str, value: object, *place: str) -> None:
        for command, option in having.items():
            why = option.check(value)
            if why:
                self._fails(f"{name} = {said(value)}: {why}", "options", *place)
                return
            self.options.setdefault(command, {})[option.param] = (
                [value] if option.many and not isinstance(value, list) else value
            )
            self.places[command, option.param] = ("options", *place)

    def _unknown(self, where: str, name: str, there: Iterable[str], commands: Iterable[str], *place: str) -> None:
        plain = name.replace("_", "-").lstrip("-")
        why = self._known.refused(plain)
        if why:
            self._fails(f"{where} {name}: {why}", "options", *place)
            return
        having = [command for command, options in self._known.options.items() if plain in options]
        near = f"; {', '.join(having)} {'have' if len(having) > 1 else 'has'} it" if having else _near(plain, there)
        if not near and plain in commands:
            near = f"; a command's options stand in [options.{plain}]"
        self._fails(f"{where} there is no option {name}{near}", "options", *place)

    # Keys

    def _read_keys(self, table: Mapping[str, object]) -> None:
        known = self._known.keys()
        chosen, places = dict[str, tuple[str, ...]](), dict[str, tuple[tuple[str, ...], object]]()
        for (*above, place), value in self._keys_of(table, known):
            keys, action = texts(value), ".".join((*above, place)).replace("_", "-")
            where = ("keys", *above, place)
            if action not in known:
                there = [name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == ".".join(above)]
                near = _near(place, there) or "; gmg-tui config --example lists them"
                self._fails(f"[{'.'.join(where[:-1])}] there is no action {place}{near}", *where)
            elif not keys or action in chosen:
                why = 'give a key, "R", or several, ["R", "f5"]' if not keys else "it is set twice"
                self._fails(f"[{'.'.join(where[:-1])}] {place} = {said(value)}: {why}", *where)
            else:
                chosen[action], places[action] = keys, (where, value)
        for action, why in [*self._known.wrong_keys(chosen)]:
            where, value = places[action]
            self._fails(f"[{'.'.join(where[:-1])}] {where[-1]} = {said(value)}: {why}", *where)
            chosen.pop(action, None)
        # Without those that are wrong, others may be in the way of a built-in key.
        while left := dict(self._known.wrong_keys(chosen)):
            chosen = {action: keys for action, keys in chosen.items() if action not in left}
        self.keys = chosen

    def _keys_of(self, table: Mapping[str, object], known: Iterable[str]) -> Iterator[tuple[tuple[str, ...], object]]:
        """What [keys] has: each action with the table in it, such as `in-queue`, that it stands in, and its keys."""
        tables = sorted({name.rpartition(".")[0] for name in known} - {""})
        for place, value in table.items():
            if not isinstance(value, dict):
                yield (place,), value
            elif place.replace("_", "-") in tables:
                yield from (((place, name), one) for name, one in value.items())
            else:
                near = _near(place, tables) or f"; there are {', '.join(tables)}"
                self._fails(f"[keys.{place}]: there is no such table{near}", "keys", place)

    # Patterns

    def _read_patterns(self, table: Mapping[str, object]) -> None:
        for script, value in table.items():
            found = texts(value)
            if not found:
                self._fails(f"[patterns] {said(script)} = {said(value)}: give a text, or several", "patterns", script)
                continue
            try:
                self._known.check_pattern(found, f"[patterns] {said(script)} =")
            except GmgError as error:
                self._fails(str(error), "patterns", script)
            else:
                self.patterns[script] = found


def texts(value: object) -> tuple[str, ...]:
    """A text, or a list of texts; empty for anything else, and where one is empty."""
    many: list[Any] = value if isinstance(value, list) else [value]
    return tuple(many) if many and all(isinstance(one, str) and one for one in many) else ()


def said(value: object) -> str:
    """A value as TOML has it, cut where it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    elif isinstance(value, list | tuple):
        text = f"[{', '.join(map(said, value))}]"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{key} = {said(one)}' for key, one in value.items())}}}"
    else:
        text = str(value)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


_LONG = 200


def _near(name: object, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(str(name).replace("_", "-"), [*names], 1, 0.6)
    found = found or difflib.get_close_matches(str(name), [*names], 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""
