"""A report as one Markdown page and one HTML page that needs no other file. All text is escaped."""

import base64
import csv
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearning.files import write_atomically


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph, or a block of commands."""

    text: str
    code: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]


@dataclass(frozen=True)
class Picture:
    """A figure in a file, and what it shows."""

    path: Path
    caption: str


Block = Text | Table | Picture


@dataclass
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: list[Block] = field(default_factory=list)


STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #999; } img { max-width: 100%; } figcaption { color: #555; }
pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; } figure { margin: 1.2rem 0; }"""


def write_report(title: str, sections: Sequence[Section], folder: Path) -> tuple[Path, Path]:
    """Write report.md, which links to the figures, and report.html, which holds them."""
    pages = folder / "report.md", folder / "report.html"
    write_atomically(pages[0], markdown(title, sections, folder).encode())
    write_atomically(pages[1], page(title, sections).encode())
    return pages


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file with the first row's names as its header; nothing where there are no rows."""
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def markdown(title: str, sections: Sequence[Section], folder: Path) -> str:
    """The Markdown page; figures are linked relative to its folder."""
    parts = [f"# {escape_markdown(title)}"]
    for section in sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [_markdown_block(block, folder) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block, folder: Path) -> str:
    if isinstance(block, Text):
        return f"```\n{block.text.replace('```', '')}\n```" if block.code else escape_markdown(block.text)
    if isinstance(block, Picture):
        path = block.path.relative_to(folder).as_posix()
        return f"![{escape_markdown(block.caption)}](<{path}>)"
    lines = [[escape_markdown(h) for h in block.headings], ["---"] * len(block.headings)]
    for row in map(_cells, block.rows):
        lines.append([f"**{escape_markdown(c.text)}**" if c.bold else escape_markdown(c.text) for c in row])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_markdown(text: str) -> str:
    """Text that shows as it is: no markup, no HTML, no end of a table's cell."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))


def page(title: str, sections: Sequence[Section]) -> str:
    """The HTML page; figures are part of it."""
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += [_html_block(block) for block in section.blocks]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    whole = ["<!doctype html>", f'<html lang="en"><head>{head}</head><body>', *body, "</body></html>", ""]
    return "\n".join(whole)


def _html_block(block: Block) -> str:
    if isinstance(block, Text):
        tag = "pre" if block.code else "p"
        return f"<{tag}>{html.escape(block.text)}</{tag}>"
    if isinstance(block, Picture):
        data = base64.b64encode(block.path.read_bytes()).decode()
        caption = html.escape(block.caption)
        image = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    head = "".join(f"<th>{html.escape(h)}</th>" for h in block.headings)
    rows = []
    for row in map(_cells, block.rows):
        cells = (f"<b>{html.escape(c.text)}</b>" if c.bold else html.escape(c.text) for c in row)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cells(row: Sequence[Cell | str]) -> list[Cell]:
    return [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
