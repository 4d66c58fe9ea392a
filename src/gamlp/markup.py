"""Small pieces of HTML for notebooks: everything that is filled in is escaped, nothing is fetched, nothing is run."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gamlp.errors import printable, shortened

MOST_ROWS = 30  # of a table: what comes after is counted
_CELL = "padding:2px 8px;border-bottom:1px solid rgba(128,128,128,.3);"
_COLOUR = "70,130,180"


def text(value: object) -> str:
    """A value as a page may show it, whatever somebody called it.

    >>> text("<b>x")
    '&lt;b&gt;x'
    """
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    shown = f"{value:.4g}" if isinstance(value, float) else shown
    return html.escape(shortened(printable(shown)))


def page(title: str, parts: Iterable[str]) -> str:
    """The parts under a title, in an element of their own."""
    heading = f'<div style="font-weight:600;margin:2px 0 6px">{text(title)}</div>'
    return f'<div class="gamlp" style="font-size:13px;line-height:1.4">{heading}{"".join(parts)}</div>'


def table(header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """A table; numbers stand to the right. Nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f'<th style="{_CELL}text-align:left">{text(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows[:MOST_ROWS])
    return _framed(head, body, caption, len(rows) - MOST_ROWS)


def heat(header: Sequence[str], names: Sequence[str], shares: Sequence[Sequence[float]], caption: str = "") -> str:
    """Shares from 0 to 1 as a map: a row for each name, the darker the more."""
    if not names:
        return ""
    head = "".join(f'<th style="{_CELL}text-align:left">{text(name)}</th>' for name in header)
    body = "".join(
        f"<tr>{_cell(name)}{''.join(_shaded(share) for share in row)}</tr>"
        for name, row in list(zip(names, shares))[:MOST_ROWS]
    )
    return _framed(head, body, caption, len(names) - MOST_ROWS)


def bars(names: Sequence[str], counts: Sequence[float], caption: str = "") -> str:
    """A bar for each name, as long as its count beside the largest."""
    most = max(counts, default=0) or 1
    body = "".join(
        f'<tr>{_cell(name)}{_cell(count)}<td style="{_CELL}width:160px">'
        f'<div style="height:10px;width:{100 * count / most:.1f}%;background:rgb({_COLOUR})"></div></td></tr>'
        for name, count in list(zip(names, counts))[:MOST_ROWS]
    )
    return _framed("", body, caption, len(names) - MOST_ROWS) if names else ""


def sentence(told: str) -> str:
    return f"<div>{text(told)}</div>"


def _framed(head: str, body: str, caption: str, left_out: int) -> str:
    above = f'<div style="margin-top:6px;opacity:.8">{text(caption)}</div>' if caption else ""
    below = f"<div>and {left_out:,} more</div>" if left_out > 0 else ""
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'{above}<table style="border-collapse:collapse;margin:2px 0">{head}<tbody>{body}</tbody></table>{below}'


def _cell(value: object) -> str:
    side = "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"
    return f'<td style="{_CELL}text-align:{side}">{"" if value is None else text(value)}</td>'


def _shaded(share: float) -> str:
    strength = min(max(float(share), 0.0), 1.0)
    return f'<td style="{_CELL}text-align:right;background:rgba({_COLOUR},{strength:.2f})">{share:.2f}</td>'
