"""The words and cells of a comparison that the terminal and the page share."""

from __future__ import annotations

from gmg_tui import units
from gmg_tui.report.compare.comparison import Change, Comparison, Setting

_SPREAD = "± of a mean: the standard deviation over its slots"
_MARGIN = "± of a change: what holds it with 95 % confidence"


def value(setting: Setting, place: int) -> str:
    """A setting's cell: what was not recorded is n/a, what was not given –."""
    found = setting.values[place]
    if found is not None:
        return found
    return units.NOT_SUPPORTED if setting.name.kind in ("version", "hardware") else units.NOT_KNOWN


def confidence(made: Comparison) -> str:
    """What the ± of the rates are; empty where there is none."""
    spread = any(side.spread_pct is not None for side in made.sides)
    margin = any(change is not None and change.margin_pct is not None for change in made.changes)
    return "; ".join([*([_SPREAD] if spread else []), *([_MARGIN] if margin else [])])


def same(made: Comparison) -> str:
    """What all sessions have in common, in one line; empty where that is nothing."""
    return ", ".join(
        value(one, 0) if one.name.name in ("script", "GPU") else f"{one.name.name} {value(one, 0)}" for one in made.same
    )


def rate_rows(made: Comparison, most: int | None = None) -> list[list[str]]:
    """The table of rates, its header first: a row for each slot or job (`most` of them), their mean, and the total."""
    header = [f"settled FPS by {made.unit}"]
    for place, side in enumerate(made.sides):
        header += [side.name, "change"] if place else [side.name]
    rows = [header]
    for row in made.rows[:most]:
        cells = [row.key]
        for place, fps in enumerate(row.fps):
            cells += [units.fps(fps), units.change(row.change_pct[place])] if place else [units.fps(fps)]
        rows.append(cells)
    mean, total = ["mean"], ["total"]
    for side, change in zip(made.sides, made.changes, strict=True):
        spread = "" if side.spread_pct is None else f" ± {side.spread_pct:.1f} %"
        mean.append(f"{units.fps(side.mean_fps)}{spread}")
        total.append(units.fps(side.total_fps))
        if change is not None:
            mean.append(_mean(change))
            total.append(units.change(change.total_pct))
    if len(made.rows) > 1:
        rows.append(mean)
    if any(side.total_fps is not None for side in made.sides):
        rows.append(total)
    return rows


def _mean(change: Change) -> str:
    margin = "" if change.margin_pct is None else f" ± {change.margin_pct:.1f}"
    return f"{units.change(change.mean_pct)}{margin}"
