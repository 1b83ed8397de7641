"""The error printed for the user: one line with the problem and its remedy."""

from collections.abc import Iterable

_MAX_TEXT = 4000


class GmgError(Exception):
    """An error that the user can correct. Its text is one line without a newline; if too long, its middle is cut out.

    Attributes:
        exit_code: The command's exit status: 2 for wrong usage, 1 otherwise.
    """

    def __init__(self, text: str, exit_code: int = 2) -> None:
        half = _MAX_TEXT // 2
        super().__init__(text if len(text) <= _MAX_TEXT else f"{text[:half]} … {text[-half:]}")
        self.exit_code = exit_code


def nearest(word: str, words: Iterable[str], likeness: float = 0.6) -> str:
    """Returns a suggestion for a misspelled word as the last clause of a line; empty if nothing is similar."""
    import difflib  # only for an error

    near = difflib.get_close_matches(word, sorted(words), 1, likeness)
    return f"; did you mean {near[0]}?" if near else ""


_MAX_LISTED = 16


def listed(words: Iterable[str]) -> str:
    """Returns the first of `words`, and the number of those left out."""
    chosen = list(words)
    more = f" and {len(chosen) - _MAX_LISTED} more" if len(chosen) > _MAX_LISTED else ""
    return ", ".join(chosen[:_MAX_LISTED]) + more
