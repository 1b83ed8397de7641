"""What the watch of a group sees of one of its ranks."""

from __future__ import annotations

from msgspec import Struct, structs

from gmg_tui.ddp.observations import Observations


class RankSeen(Struct, frozen=True, omit_defaults=True):
    """A rank's process. Moments are monotonic seconds of one machine."""

    attempt: int = 0
    """The number of its attempt; 0 before the first."""
    settled: bool = False
    """Whether it has begun, and is not being ended."""
    lives: bool = False
    phase_started: float = 0.0
    in_running: bool = False
    """Whether it is in its running phase."""
    progress_at: float | None = None
    """When it last reported progress."""
    progress_every_s: float = 0.0
    """The longest of the last intervals between two reports."""
    cpu_since: float | None = None
    """Since when `cpu_pct` is measured."""
    cpu_pct: float | None = None
    """Of one core."""
    busy: bool = False
    """Whether it used noticeable CPU time between the last two scans."""
    idle_s: float = 0.0
    """How long it had been idle at the last scan."""
    stopped: tuple[int, str] | None = None
    """The PID and the state of a process that a signal or a debugger has stopped."""
    observations: Observations | None = None
    """What its output reports of collectives."""

    def later(self, by_s: float) -> RankSeen:
        """The same by a clock that is `by_s` ahead."""
        return structs.replace(
            self,
            phase_started=self.phase_started + by_s,
            progress_at=self.progress_at + by_s if self.progress_at is not None else None,
            cpu_since=self.cpu_since + by_s if self.cpu_since is not None else None,
        )
