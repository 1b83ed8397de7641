"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from gmg_tui.report.compare import words
from gmg_tui.report.compare.comparison import Comparison
from gmg_tui.report.compare.remarks import listed, remarks
from gmg_tui.report.page import text
from gmg_tui.report.table import heading

_TABLE = """<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody></table></div>"""


def page(made: Comparison) -> bytes:
    """The page; it has the looks of a session's own."""
    whole = files("gmg_tui.report").joinpath("page.html").read_text("utf-8")
    style = whole[whole.index("<style>") : whole.index("</style>") + len("</style>")]
    frame = Template(files("gmg_tui.report.compare").joinpath("page.html").read_text("utf-8"))
    apart = [
        (f"{one.name.name} ({one.name.kind})", *(words.value(one, place) for place in range(len(made.sides))))
        for one in made.differences
    ]
    header, *rates = words.rate_rows(made)
    names = [side.name for side in made.sides]
    differences = _table(("", *names), apart, "text") if apart else "<p>Nothing of what was recorded.</p>"
    same = words.same(made)
    return frame.substitute(
        style=style,
        name=text(listed(names)),
        about=_paragraphs(heading(side.data, side.state) for side in made.sides),
        remarks=_paragraphs(remarks(made), "p"),
        differences=differences,
        same=_paragraphs([f"The same: {same}"] if same else []),
        rates=_table(header, rates, ""),
        confidence=_paragraphs(filter(None, [words.confidence(made)])),
    ).encode(errors="replace")


def _paragraphs(lines: Iterable[str], kind: str = 'p class="soft"') -> str:
    return "\n".join(f"<{kind}>{text(line)}</p>" for line in lines)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    def cell(place: int, value: str) -> str:
        shown = "text" if place == 0 else kind
        return f'<td class="{shown}">{text(value)}</td>' if shown else f"<td>{text(value)}</td>"

    head = "".join(f'<th scope="col">{text(title)}</th>' for title in header)
    body = "\n".join(f"<tr>{''.join(cell(place, value) for place, value in enumerate(row))}</tr>" for row in rows)
    return _TABLE.format(head=head, body=body)
