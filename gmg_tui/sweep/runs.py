"""Jobs that are run several times: `repeat`, and `every_gpu`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gmg_tui.sweep import names
from gmg_tui.sweep.batch_builder import JobDraft


class Runs(NamedTuple):
    """How often, and where, each job of a batch is run."""

    repeat: int = 1
    gpus: tuple[tuple[str, ...], ...] = ()
    """With `every_gpu`, for each GPU the slots that jobs may have there; empty where each job runs on any."""

    @property
    def per_job(self) -> int:
        """How many runs a job has."""
        return self.repeat * (len(self.gpus) or 1)

    def of(self, drafts: Sequence[JobDraft], taken: names.Names) -> Iterator[tuple[str, str | None, JobDraft]]:
        """The runs of a batch's jobs: name, slot that it must have (None for any), and job.

        All are run once before any is run again, so that a sweep that is stopped has run all of them equally often.
        """
        for number in range(1, self.repeat + 1):
            again = f"-r{number}" if self.repeat > 1 else ""
            for place, draft in enumerate(drafts):
                if not self.gpus:
                    yield (taken.ending(draft.name, again) if again else draft.name), None, draft
                for slots in self.gpus:
                    # Jobs that share a GPU are spread over its slots.
                    only = slots[(place + number) % len(slots)]
                    yield taken.ending(draft.name, f"-{only}{again}"), only, draft
