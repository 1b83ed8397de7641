"""A GPU as a queue sees it."""

import math
from dataclasses import dataclass, field


@dataclass
class Card:
    """A GPU with all its slots, or a CPU slot."""

    disabled: bool = False
    """True if the user disabled it for jobs."""
    benched: str | None = None
    """The reason that no job starts until the user enables it; None if it is not benched."""
    retry_at: float = math.inf
    """Time when it is enabled again, monotonic seconds: others' memory may have been the cause of the failures."""
    awaited: str | None = None
    """The wait reason while others are using the GPU; None otherwise."""
    unready: str = ""
    """The reason of the last pause, such as the driver's failure to answer."""
    paused_until: float = 0.0
    """End of that pause, monotonic seconds."""
    pause_s: float = 0.0
    """Length of that pause; 0 once a job has ended there without failing early."""
    early_failures: int = 0
    """Number of its last jobs in a row that failed early."""
    failed: list[int] = field(default_factory=list)
    """Jobs that have failed early on it since the last one that computed."""
    suspected: str | None = None
    """The reason to suspect it. Its failed jobs rerun on other GPUs; it runs only those of other suspected GPUs."""
    lost_since: float | None = None
    """Start of its loss, monotonic seconds; None if it is not lost."""
    fatal: str | None = None
    """The last fatal error from the driver; each error benches the GPU once."""

    @property
    def blocked(self) -> bool:
        """True if no job starts on it until the user enables it or others leave it."""
        return self.disabled or self.benched is not None or self.awaited is not None
