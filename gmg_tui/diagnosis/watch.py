"""Decides when the alerts of a slot are raised and cleared."""

from gmg_tui.diagnosis.facts import Facts, Past
from gmg_tui.diagnosis.kinds import KINDS, Kind, Scope
from gmg_tui.model import Alert, Sign
from gmg_tui.model.alert import by_urgency

_SOUGHT = tuple((name, kind.find) for name, kind in KINDS.items() if kind.find is not None)
"""Kinds whose signs are found here, with their functions."""
_OF_SESSION = tuple((name, find) for name, find in _SOUGHT if name in {"node", "slow", "deadline"})
"""Kinds that only the session's engine can judge: it knows the other nodes and the session's limits."""


class Watch:
    """The alerts of one attempt, or of a slot on which none has run.

    Attributes:
        alerts: The current alerts, worst first.
    """

    def __init__(self) -> None:
        self.alerts: tuple[Alert, ...] = ()
        self._past = Past()
        self._first: dict[str, float] = {}
        """When the current sign of each kind was first seen, monotonic seconds."""
        self._last: dict[str, float] = {}
        """When it was last seen."""

    def update(self, facts: Facts) -> tuple[list[Alert], list[Alert]]:
        """Applies the facts of a moment. Returns the new alerts and the cleared ones."""
        self._past.update(facts)
        signs = {sign.kind: sign for sign in reversed(facts.signs)}
        for name, find in _OF_SESSION if facts.from_agent else _SOUGHT:
            if name not in signs and (found := find(facts, self._past)) is not None:
                signs[name] = found
        before = {alert.kind: alert for alert in self.alerts}
        if not (signs or before or self._first):
            return [], []
        names = {*signs, *before, *self._first}  # all other kinds still have no alert
        judged = (
            self._judge(kind, facts, signs.get(name), before.get(name)) for name, kind in KINDS.items() if name in names
        )
        self.alerts = by_urgency(alert for alert in judged if alert is not None)
        now = {alert.kind for alert in self.alerts}
        over = [alert for kind, alert in before.items() if kind not in now]
        return [alert for alert in self.alerts if alert.kind not in before], over

    def _judge(self, kind: Kind, facts: Facts, sign: Sign | None, before: Alert | None) -> Alert | None:
        applies = kind.scope is not Scope.LIVE or facts.is_live
        if sign is None or not applies:
            self._first.pop(kind.name, None)
            over_s = facts.moment - self._last.get(kind.name, facts.moment)
            return before if applies and over_s < kind.clear_s else None
        lasts_s = facts.moment - self._first.setdefault(kind.name, facts.moment)
        self._last[kind.name] = facts.moment
        since = sign.since if sign.since is not None else before.since if before is not None else facts.now - lasts_s
        if before is None and sign.since is None and lasts_s < kind.after_s:
            return None
        return Alert(kind.name, sign.severity or kind.severity, sign.text, since, sign.advice)
