"""The error that a person sees: one line that says what is wrong and what to do."""

from __future__ import annotations


class GmgError(Exception):
    """Something that a person can put right. Its text is one line without a trailing newline.

    Attributes:
        exit_code: The command's exit status: 2 for wrong usage, 1 otherwise.
    """

    def __init__(self, text: str, exit_code: int = 2) -> None:
        super().__init__(text)
        self.exit_code = exit_code
