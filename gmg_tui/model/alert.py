"""Something that is wrong with a worker, its GPU, a node or the session, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from gmg_tui.model.states import Moment


class Severity(StrEnum):
    """The urgency of an alert."""

    INFO = "info"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """It may cost time or results."""
    ERROR = "error"
    """It costs time or results now."""


class AlertAction(StrEnum):
    """The actions of `--on KIND=ACTION` when an alert of a kind is raised."""

    SHOW = "show"
    NOTIFY = "notify"
    STOP = "stop"
    RESTART = "restart"


class Alert(Struct, frozen=True, omit_defaults=True):
    """Something that is wrong."""

    kind: str
    """A row of `diagnosis.kinds`."""
    severity: Severity
    text: str
    """One sentence, with its figures."""
    since: Moment
    """Unix time at which it began, seconds."""
    advice: str = ""
    """The next step, one line."""


class Sign(NamedTuple):
    """An observation that makes an alert of its kind."""

    kind: str
    text: str
    advice: str = ""
    severity: Severity | None = None
    """None for that of the kind."""
    since: Moment | None = None
    """Unix time at which it began, seconds; None if it began when it was first seen."""

    @classmethod
    def of(cls, alert: Alert) -> Sign:
        """The observation behind an alert that another engine has raised."""
        return cls(alert.kind, alert.text, alert.advice, alert.severity, alert.since)


_URGENCY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def by_urgency(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """The alerts, the worst first; equally urgent ones in the order of their kinds' table."""
    return tuple(sorted(alerts, key=lambda alert: _URGENCY[alert.severity]))


def urgent(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """The alerts that are more than information."""
    return tuple(alert for alert in alerts if alert.severity is not Severity.INFO)
