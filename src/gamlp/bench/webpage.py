"""A page of Markdown as one file of HTML that needs nothing else: pictures are inside, nothing is fetched or run."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

_COLOURS = 64  # of a picture inside a page: a figure has fewer
_IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<path>[^)]+)\)")
_INLINE = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)"), r'<a href="\2">\1</a>'),
    (re.compile(r"  \n"), "<br>\n"),
)
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1,h2,h3{line-height:1.25;margin:2rem 0 .5rem}
h2{border-bottom:1px solid #ccc;padding-bottom:.25rem}
table{border-collapse:collapse;font-size:.875rem;display:block;overflow-x:auto;margin:1rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:right;vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:10rem}
th{border-bottom:2px solid #888}
.picture{overflow-x:auto}
img{max-width:100%;height:auto}
code{background:#f2f2f2;padding:0 .2em}
a{color:#005a9c}
/* A figure that is as narrow as a telephone cannot be read: there it is wider than the screen, and is moved. */
@media (max-width:700px){.picture img{max-width:36rem}}
@media print{
body{max-width:none;margin:0;font-size:10px}
table{display:table;font-size:9px}
thead{display:table-header-group}
th,td{padding:.15rem .4rem}
.picture{overflow:visible}
.picture img{max-width:100%;max-height:23cm;object-fit:contain}
h3,tr,img{break-inside:avoid}
h2,h3{break-after:avoid}
}
"""


def as_html(markdown: str, folder: Path) -> str:
    """Headings, paragraphs, lists, tables, pictures, bold, code and links; pictures are read from `folder`.

    >>> "<h1>A &lt; B</h1>" in as_html("# A < B", Path())
    True
    """
    blocks = [block for block in markdown.split("\n\n") if block.strip()]
    title = next((block.lstrip("# ") for block in blocks if block.startswith("# ")), "")
    body = "\n".join(_block(block.strip("\n"), folder) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _block(block: str, folder: Path) -> str:
    if (heading := re.fullmatch(r"(#{1,4}) (.+)", block)) is not None:
        level = len(heading[1])
        return f"<h{level}>{_inline(heading[2])}</h{level}>"
    if (picture := _IMAGE.fullmatch(block)) is not None:
        return _picture(picture["text"], folder / picture["path"])
    if block.startswith("| "):
        return _table(block.splitlines())
    if block.startswith("- "):
        items = "".join(f"<li>{_inline(item)}</li>" for item in re.split(r"\n(?=- )", block.removeprefix("- ")))
        return f"<ul>{items.replace('<li>- ', '<li>')}</ul>"
    return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    shown = html.escape(text, quote=True)
    for pattern, replacement in _INLINE:
        shown = pattern.sub(replacement, shown)
    return shown


def _table(lines: list[str]) -> str:
    head, _, *rows = lines
    top = "".join(f"<th>{cell}</th>" for cell in _cells(head))
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(row))}</tr>\n" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table>"


def _cells(line: str) -> Iterator[str]:
    for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|")):
        yield _inline(cell.strip().replace("\\|", "|"))


def _picture(text: str, path: Path) -> str:
    from PIL import Image  # matplotlib, which drew it, brings it

    content = io.BytesIO()
    with Image.open(path) as image:
        width = image.width
        # Figures are 150 dots an inch; a screen shows 96.
        image.convert("RGB").quantize(_COLOURS).save(content, "PNG", optimize=True)
    inside = base64.b64encode(content.getvalue()).decode()
    shown = f'alt="{html.escape(text, quote=True)}" width="{round(width * 96 / 150)}"'
    return f'<p class="picture"><img {shown} src="data:image/png;base64,{inside}"></p>'
