"""`config`: where the settings are, what is set, an example, and what is wrong."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from gmg_tui import tables
from gmg_tui.commands.known_settings import known
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.settings import place, source
from gmg_tui.settings.example import example
from gmg_tui.settings.reading import Read, Wrong, read, said


def config(group: click.Command, commands: Collection[str], *, show_path: bool, show_example: bool, check: bool) -> int:
    """Tell about the settings; the exit status, which is 2 where `check` finds something wrong. Raises `GmgError`."""
    assert isinstance(group, click.Group)
    if show_path + show_example + check > 1:
        raise GmgError("--path, --example and --check are mutually exclusive; give one of them")
    if show_example:
        print(example(known(group, commands)), end="")
        return 0
    file = place.path()
    if file is None:
        raise GmgError("GMG_TUI_CONFIG is empty, so no settings are read; unset it")
    if show_path:
        print(file)
        return 0
    try:
        loaded = source.load(file)
    except GmgError as error:
        tell(f"gmg-tui: {error}")
        return error.exit_code if check else 0
    if loaded is None:
        print(f"{file}: there is no such file; gmg-tui config --example prints one")
        return 0
    found = read(loaded, known(group, commands))
    if check:
        found = found._replace(wrong=tuple(sorted([*found.wrong, *_beyond(group, loaded, found)])))
    for text in found.texts():
        tell(f"gmg-tui: {text}")
    if check and found.wrong:
        return 2
    _show(file, loaded, found, check=check)
    return 0


def _show(file: Path, loaded: source.Source, found: Read, *, check: bool) -> None:
    rows = [[f"{line}", name, value] for line, name, value in sorted(_set(loaded, found))]
    if check:
        print(f"{file}: fine, {len(rows)} {'thing is' if len(rows) == 1 else 'things are'} set")
    elif rows:
        print("\n".join([str(file), *tables.lines([["line", "setting", "value"], *rows], "rll")]))
    else:
        print(f"{file}: nothing is set")


def _set(loaded: source.Source, found: Read) -> set[tuple[int, str, str]]:
    """The line of each thing that is set, its name with its table, and its value as it stands there."""
    settings, rows = found.settings, set[tuple[int, str, str]]()
    wrong = {one.line for one in found.wrong}
    patterns, kept = loaded.data.get("patterns", {}), {glob for glob, _ in settings.patterns}
    for table in ("options", "keys"):
        values = loaded.data.get(table)
        for name, value in (values if isinstance(values, dict) else {}).items():
            known_one = isinstance(value, dict) and loaded.line(table, name) not in wrong
            inner = value.items() if known_one else ()
            rows |= {(loaded.line(table, name, one), f"[{table}.{name}] {one}", said(it)) for one, it in inner}
            if not isinstance(value, dict):
                rows.add((loaded.line(table, name), f"[{table}] {name}", said(value)))
    rows |= {
        (loaded.line("patterns", glob), f"[patterns] {said(glob)}", said(one))
        for glob, one in patterns.items()
        if glob in kept
    }
    if settings.theme is not None:
        rows.add((loaded.line("theme"), "theme", said(settings.theme)))
    return {row for row in rows if row[0] not in wrong}


def _beyond(group: click.Group, loaded: source.Source, found: Read) -> list[Wrong]:
    """What only a run itself knows to be wrong with a value, as a run says it of each option alone."""
    from gmg_tui.commands.options import RunOptions, check

    wrong = set[Wrong]()
    for command, values in found.settings.options.items():
        context = click.Context(group.commands[command])
        options = {one.name: one for one in group.commands[command].params}
        for param, value in values.items():
            if param not in RunOptions._fields:
                continue
            given = options[param].type_cast_value(context, value)
            try:
                check(RunOptions()._replace(**{param: given}))
            except GmgError as error:
                said_of_it = str(error).startswith(tuple(f"{one} " for one in options[param].opts))
                if said_of_it and not str(error).endswith(" too"):  # another option is missing, which is no fault here
                    wrong.add(Wrong(loaded.line(*found.settings.places[command, param]), str(error)))
    return sorted(wrong)
