"""The file of settings: the lines in which its keys stand, and the scripts that patterns are for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.errors import GmgError
from gmg_tui.settings import place, source
from gmg_tui.settings.scripts import patterns_of

_NAMES = st.text("abcdefgh-_", min_size=1, max_size=6)
_VALUES = st.sampled_from(
    ["1", "true", '"a # b"', "'''\na = 1\n[x]\n'''", "[\n  1, # one\n\n  2,\n]", '"""\\\n  b = 2\n"""', "{ c = 1 }"]
)
_GAPS = st.sampled_from(["", "\n", "# a = 1\n", "\n\n  # [t]\n"])


@given(st.dictionaries(_NAMES, st.dictionaries(_NAMES, st.tuples(_GAPS, _VALUES), max_size=5), max_size=4))
def test_the_line_of_each_key_is_told_whatever_stands_between(
    tables: dict[str, dict[str, tuple[str, str]]],
) -> None:
    text, lines = "", dict[tuple[str, ...], int]()
    for table, values in tables.items():
        lines[(table,)] = text.count("\n") + 1
        text += f"[{table}]\n"
        for key, (gap, value) in values.items():
            text += gap
            lines[table, key] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    found = source.Source(Path("config.toml"), text)
    assert {keys: found.line(*keys) for keys in lines} == lines


def test_dotted_keys_and_inline_tables_have_lines_too() -> None:
    found = source.Source(Path("config.toml"), 'a.b = 1\n"c.d".e = 2\nf = { g = { h = 3 } }')
    assert [found.line(*keys) for keys in (("a", "b"), ("c.d", "e"), ("f", "g", "h"), ("f",))] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[options]\ngpus = \n", ":2: is not TOML: invalid value"),
        (b"a = 1\nb = 2\na = 3\n", ":3: is not TOML"),
        (b'a = 1\nb = """\n', ":2: is not TOML"),
        (b"a = 1\n# \xff\n", ":2: is not UTF-8"),
        (b"#" * (source.MOST_BYTES + 1), ": is larger than 64 KiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(data)
    with pytest.raises(GmgError, match=r"^[^\n]*$") as error:
        source.load(file)
    assert str(error.value).startswith(f"{file}{said}")
    assert error.value.exit_code == 2


def test_a_file_of_another_system_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbftheme = 'dark'\r\n[options]\r\ncpu = 1\r\n")
    found = source.load(file)
    assert found is not None
    assert found.data == {"theme": "dark", "options": {"cpu": 1}}
    assert found.line("options", "cpu") == 3


def test_where_the_file_is() -> None:
    home = Path("~/.config/gmg-tui/config.toml").expanduser()
    assert place.path({}) == home
    assert place.path({"XDG_CONFIG_HOME": ""}) == home
    assert place.path({"XDG_CONFIG_HOME": "relative"}) == home
    assert place.path({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/gmg-tui/config.toml")
    assert place.path({"XDG_CONFIG_HOME": "/etc/xdg", "GMG_TUI_CONFIG": "other.toml"}) == Path("other.toml")
    assert place.path({"GMG_TUI_CONFIG": ""}) is None


def test_the_first_glob_that_fits_a_script_has_its_patterns() -> None:
    patterns = (("train.py", ("a",)), ("/srv/*.py", ("b",)), ("train_*", ("c",)), ("pkg.*", ("d",)), ("*", ("e",)))
    for script, found in (
        ("train.py", "a"),
        ("jobs/train.py", "a"),
        ("/srv/other/sim.py", "b"),
        ("train_ppo.py", "c"),
        ("pkg.train", "d"),
        ("sim.py", "e"),
    ):
        assert patterns_of(script, patterns) == (found,), script
    assert patterns_of("sim.py", patterns[:1]) == ()
