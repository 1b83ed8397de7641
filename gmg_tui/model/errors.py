"""The error to show to users, with the problem and its remedy; and helpers for its text."""

from collections.abc import Iterable

_MAX_ERROR_CHARS = 4000


class GmgError(Exception):
    """An error that the user can correct. Its text is one line unless it lists items; if too long, the middle is cut out.

    Attributes:
        exit_code: The command's exit status: 2 for wrong usage, 1 otherwise.
    """

    def __init__(self, text: str, exit_code: int = 2) -> None:
        half = _MAX_ERROR_CHARS // 2
        super().__init__(text if len(text) <= _MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}")
        self.exit_code = exit_code


def suggest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns `; did you mean …?` with the most similar of `words`; empty if none reaches the similarity `cutoff`."""
    import difflib  # slow to import, and needed only for errors

    matches = difflib.get_close_matches(word, sorted(words), 1, cutoff)
    return f"; did you mean {matches[0]}?" if matches else ""


_MAX_LISTED_WORDS = 16


def join_words(words: Iterable[str]) -> str:
    """Joins `words` with commas; drops all after `_MAX_LISTED_WORDS`, and adds their number."""
    items = list(words)
    more = f" and {len(items) - _MAX_LISTED_WORDS} more" if len(items) > _MAX_LISTED_WORDS else ""
    return ", ".join(items[:_MAX_LISTED_WORDS]) + more
