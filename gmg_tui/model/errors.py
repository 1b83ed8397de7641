"""The error printed for the user: one line with the problem and its remedy."""

from collections.abc import Iterable

_MAX_CHARS = 4000


class GmgError(Exception):
    """An error that the user can correct. Its text is one line without a newline; if too long, its middle is cut out.

    Attributes:
        exit_code: The command's exit status: 2 for wrong usage, 1 otherwise.
    """

    def __init__(self, text: str, exit_code: int = 2) -> None:
        half = _MAX_CHARS // 2
        super().__init__(text if len(text) <= _MAX_CHARS else f"{text[:half]} … {text[-half:]}")
        self.exit_code = exit_code


def nearest(word: str, words: Iterable[str], likeness: float = 0.6) -> str:
    """Returns `; did you mean …?` with the most similar of `words`; empty if none is similar."""
    import difflib  # slow to import, and needed only for errors

    matches = difflib.get_close_matches(word, sorted(words), 1, likeness)
    return f"; did you mean {matches[0]}?" if matches else ""


_MAX_LISTED_WORDS = 16


def listed(words: Iterable[str]) -> str:
    """Joins `words` by commas; of many, only the first and the number of others."""
    chosen = list(words)
    more = f" and {len(chosen) - _MAX_LISTED_WORDS} more" if len(chosen) > _MAX_LISTED_WORDS else ""
    return ", ".join(chosen[:_MAX_LISTED_WORDS]) + more
