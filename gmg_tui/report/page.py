"""Reports as self-contained HTML pages, with plotly's charts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from gmg_tui import tables, units
from gmg_tui.errors import GmgError
from gmg_tui.model import Tuning
from gmg_tui.report import charts
from gmg_tui.report.compare import Comparison
from gmg_tui.report.data import ReportData
from gmg_tui.results import tuning as tune_words
from gmg_tui.results.jobs import columns
from gmg_tui.store.reader import Stored
from gmg_tui.tables import in_html

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_Drawing = Callable[["Figure"], str]
_CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def page(data: ReportData, stored: Stored) -> bytes:
    """The page of one session; `stored` is its open store.

    Raises:
        StoreError: The store is damaged.
        GmgError: plotly is not installed.
    """
    draw = _drawing()
    rows = data.rows()
    facts = [*((state, f"{number:,}") for state, number in sorted(data.states.items())), *data.totals]
    if data.total_fps is not None:
        facts.append(("FPS without failed workers" if "failed" in data.states else "FPS", units.fps(data.total_fps)))
    body = [
        f"<dl>{''.join(f'<div><dt>{in_html(name)}</dt><dd>{in_html(value)}</dd></div>' for name, value in facts)}</dl>",
        *(tuning(data.tuning, draw) if data.tuning is not None else ()),
        *_soft(data.slow_slots),
        "<h2>Over time</h2>",
        draw(charts.over_time(data, stored)),
        "<h2>Jobs</h2>",
        tables.html(columns(rows), rows, kind=lambda row: row.state.value),
    ]
    return _filled(data.name, [data.heading], body)


def comparison(made: Comparison) -> bytes:
    """The page of several sessions beside each other. Raises `GmgError` where plotly is not installed."""
    draw = _drawing()
    body = [
        *(f"<p>{in_html(line)}</p>" for line in made.remarks),
        "<h2>What differs</h2>",
        tables.html(made.setting_columns, made.differences) if made.differences else "<p>Nothing.</p>",
        "<h2>Rates</h2>",
        draw(charts.rates(made)),
        tables.html(made.rate_columns, made.rate_rows),
    ]
    names = [side.name for side in made.sides]
    return _filled(" and ".join(names), [side.data.heading for side in made.sides], body)


def tuning(of: Tuning, draw: _Drawing) -> Iterator[str]:
    """The section with a tuning's curve, answer and trials; `draw` makes HTML of a figure."""
    yield f"<h2>Tuning: {in_html(tune_words.wanted(of.spec))}</h2>"
    answer = of.answer
    yield draw(charts.curve(of))
    if together := tune_words.together(answer, of.spec):
        yield f"<p>{in_html(of.spec.variable)} = {in_html(together)}</p>"
    yield tables.html(tune_words.answer_columns(of.spec), tune_words.values_of(answer, of.spec))
    yield from (f"<p>{name}: {in_html(text)}</p>" for name, text in tune_words.notes(answer))
    if of.command:
        yield f"<pre>{in_html(shlex.join(of.command))}</pre>"
    yield from _soft([tune_words.caution(of.spec)])
    trials = sorted(of.trials, key=lambda trial: (trial.value, trial.number))
    yield tables.html(tune_words.columns(of.spec), trials, kind=lambda trial: trial.state.value)


def _drawing() -> _Drawing:
    """Makes HTML of figures; the first has plotly's script. Raises `GmgError` where plotly is not installed."""
    try:
        import plotly.io
    except ImportError:
        raise GmgError("--html needs plotly; get it with: pip install 'gmg-tui[report]'", 1) from None
    drawn = 0

    def draw(figure: Figure) -> str:
        nonlocal drawn
        drawn += 1
        html: str = plotly.io.to_html(
            figure, config=_CONFIG, include_plotlyjs=drawn == 1, include_mathjax=False, full_html=False
        )
        return html

    return draw


def _filled(title: str, about: Iterable[str], body: Iterable[str]) -> bytes:
    template = Template(files("gmg_tui.report").joinpath("page.html").read_text("utf-8"))
    text = template.substitute(title=in_html(title), about="".join(_soft(about)), body="\n".join(body))
    return text.encode(errors="replace")


def _soft(lines: Iterable[str]) -> list[str]:
    return [f'<p class="soft">{in_html(line)}</p>' for line in lines]
