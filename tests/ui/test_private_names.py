"""Our widgets share their attributes with Textual's, also the private ones."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from functools import cache

import gmg_tui.ui


@cache
def _assigned(each: type) -> set[str]:
    """The attributes that the code of a class sets on its instances."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
    places = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {place.attr for place in places if isinstance(place.value, ast.Name) and place.value.id == "self"}


def test_no_class_sets_a_private_attribute_of_textual() -> None:
    """`MainScreen._size` was Textual's too: a screen stayed blank when it was resized."""
    ours, taken = set[type](), set[tuple[str, str]]()
    for module in pkgutil.walk_packages(gmg_tui.ui.__path__, "gmg_tui.ui."):
        members = vars(importlib.import_module(module.name)).values()
        ours |= {each for each in members if isinstance(each, type) and each.__module__ == module.name}
    for each in ours:
        private = {name for name in _assigned(each) if name.startswith("_")}
        for base in each.__mro__:
            if base.__module__.startswith("textual."):
                taken |= {(each.__name__, name) for name in private & (_assigned(base) | set(vars(base)))}
    assert len(ours) > 30
    assert not taken
