"""Alerts: problems of a worker, its GPU, a node or the session, with advice."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct

from gmg_tui.model.states import Moment


class Severity(StrEnum):
    """The urgency of an alert."""

    INFO = "info"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """It may cost time or results."""
    ERROR = "error"
    """It is costing time or results now."""


class AlertAction(StrEnum):
    """An action of `--on KIND=ACTION`."""

    SHOW = "show"
    NOTIFY = "notify"
    STOP = "stop"
    RESTART = "restart"


class Alert(Struct, frozen=True, omit_defaults=True):
    """A raised alert."""

    kind: str
    """A key of `diagnosis.kinds.KINDS`."""
    severity: Severity
    text: str
    """One sentence, with its figures."""
    since: Moment
    advice: str = ""
    """The next step, one line."""

    @property
    def headline(self) -> str:
        """Its kind and text, or only its text if that begins with the kind."""
        return self.text if self.text.startswith(self.kind) else f"{self.kind}: {self.text}"


class Sign(NamedTuple):
    """An observation that raises an alert."""

    kind: str
    text: str
    advice: str = ""
    severity: Severity | None = None
    """None for the kind's severity."""
    since: Moment | None = None
    """None if it began when first observed."""

    @classmethod
    def from_alert(cls, alert: Alert) -> Self:
        """Returns the observation behind an alert raised by another engine."""
        return cls(alert.kind, alert.text, alert.advice, alert.severity, alert.since)


_URGENCY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def by_urgency(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Sorts alerts by severity, worst first; equal ones keep their order."""
    return tuple(sorted(alerts, key=lambda alert: _URGENCY[alert.severity]))


def urgent(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Returns the warnings and errors."""
    return tuple(alert for alert in alerts if alert.severity is not Severity.INFO)
