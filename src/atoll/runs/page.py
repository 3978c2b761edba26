"""A run as one file for a browser: nothing is loaded from anywhere, nothing in it runs.

Candidates are foreign text, and all text is escaped where it enters the page; `Markup` is what was made here.
"""

import html
import sys
from collections.abc import Iterable, Iterator, Sequence

from atoll import store
from atoll.runs import baselines, curve, looks, progress, text
from atoll.runs.gists import gist
from atoll.runs.report import Facts, gather, shortened
from atoll.store import events

NUM_TOP = 20
NUM_EVENTS = 30

# Should an escape ever be forgotten, a browser still loads nothing and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --new: #1a7f37; --old: #cf222e; --curve: #0969da; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; width: 100% }
th { text-align: left; font-weight: 600; color: var(--soft) }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal }
pre { background: #8881; padding: .7rem; overflow-x: auto; border-radius: 6px; font: 13px/1.45 ui-monospace, monospace }
summary { cursor: pointer } .added { color: var(--new) } .removed { color: var(--old) } .place { color: var(--soft) }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--soft) }
.curve { fill: none; stroke: var(--curve); stroke-width: 2 } .axis { stroke: var(--line) } .dot { fill: var(--curve) }
"""


class Markup(str):
    """A piece of the page, made here out of escaped text."""

    __slots__ = ()


type Cell = str | int | float | Markup | None


def page(kept: store.Store, run: str) -> Iterator[str]:
    """Yields the pieces of a page about a run.

    Raises:
        NotFound: There is no such run.
    """
    facts = gather(kept, run)
    title = _escaped(f"Run {facts.summary.run}")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    yield f"<p>{_escaped(facts.about(str))}</p>\n<p>{_escaped(facts.outcome())}</p>\n"
    yield from _baselines(facts)
    yield from _progress(facts)
    if facts.best is not None:
        best = looks.shown(facts.summary.system, facts.best.content)
        yield f"<h2>The best candidate, {_escaped(facts.best.id)}</h2>\n{_source(best)}\n"
        yield from _descent(facts)
        start = kept.candidates(run).find("0.0")
        rows = kept.candidates(run).best(NUM_TOP)
        yield from _top(rows, start.content if start else "", facts.summary.system)
    yield from _islands(facts.islands)
    yield from _losses(facts)
    yield from _events(kept, run)
    yield f"<h2>Cost</h2>\n<p>{_escaped(facts.cost())}</p>\n"
    yield f"<h2>Set-up</h2>\n{_source(chr(10).join(facts.settings))}\n</body>\n</html>\n"


def _events(kept: store.Store, run: str) -> Iterator[str]:
    """Yields the end of the journal."""
    found = events.Events(kept, run).before(sys.maxsize, NUM_EVENTS)
    yield "<h2>The last events</h2>\n"
    rows = [(each.seq, each.kind, each.step, "all" if each.island < 0 else each.island, gist(each)) for each in found]
    yield from _table(("event", "kind", "step", "island", "what"), rows)


def _baselines(facts: Facts) -> Iterator[str]:
    found = list(baselines.lines(facts.baselines, facts.summary.best_score, facts.summary.run))
    if len(found) == 1:
        yield f"<p>{_escaped(found[0])}</p>\n"
        return
    yield f"<h2>Baselines</h2>\n<p>{_escaped(found[0])}</p>\n"
    rows = [baselines.cells(each, facts.summary.best_score) for each in facts.baselines]
    yield from _table(baselines.COLUMNS, rows)


def _progress(facts: Facts) -> Iterator[str]:
    if not facts.improvements:
        return
    yield f"<h2>Best score over evaluations</h2>\n{curve.svg(facts.improvements, facts.summary.totals.evaluations)}\n"
    rows = [(each.evaluations, each.score, each.id, each.island) for each in facts.improvements]
    gap: Sequence[Cell] = ("…", None, None, None)
    table = _table(("evaluations", "score", "candidate", "island"), shortened(rows, gap))
    yield _folded(f"{len(rows):,} improvements", Markup("".join(table)))


def _top(rows: Iterable[store.Row], start: str, system: str) -> Iterator[str]:
    yield "<h2>The best candidates</h2>\n"

    def folded(row: store.Row) -> Markup:
        return _folded(looks.news(system, row.content, start, 80), _source(looks.shown(system, row.content)))

    cells = [(row.id, row.island, row.step, row.score, folded(row)) for row in rows]
    yield from _table(("candidate", "island", "step", "score", "what is new"), cells)


def _descent(facts: Facts) -> Iterator[str]:
    yield "<h2>From the best back to the start</h2>\n"
    cells: list[Sequence[Cell]] = [
        (
            link.row.id,
            link.row.island,
            link.row.score,
            link.gain,
            text.gist(text.data(link.row.meta), 80),
            _change(link, facts.summary.system),
        )
        for link in facts.descent
    ]
    gap: Sequence[Cell] = ("…", None, None, None, None, None)
    yield from _table(("candidate", "island", "score", "gain", "how", "change"), shortened(cells, gap))


def _change(link: progress.Link, system: str) -> Cell:
    if link.parent is None:
        return "the start"
    names = (link.parent.id, link.row.id)
    before, after = (looks.shown(system, row.content) for row in (link.parent, link.row))
    lines = [_line(each) for each in text.patch(before, after, *names)]
    return _folded(f"against {link.parent.id}", Markup(f"<pre>{chr(10).join(lines)}</pre>")) if lines else "none"


def _line(line: str) -> str:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    kind = kinds.get(line[:1])
    return f'<span class="{kind}">{_escaped(line)}</span>' if kind else _escaped(line)


def _islands(islands: Sequence[progress.Island]) -> Iterator[str]:
    if not islands:
        return
    yield "<h2>Islands</h2>\n"
    cells = [(each.index, each.best_id, each.best_score, *each.counts.values()) for each in islands]
    yield from _table(("island", "best", "score", *islands[0].counts), cells)


def _losses(facts: Facts) -> Iterator[str]:
    for title, reasons in (("Failures", facts.losses.failures), ("Kept out by a gate", facts.losses.rejections)):
        if reasons:
            yield f"<h2>{title}</h2>\n"
            yield from _table(("count", "by", "reason"), [(r.count, r.by, text.gist(r.text, 400)) for r in reasons])


def _table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    body = list(rows)
    numeric = [any(isinstance(row[place], int | float) for row in body) for place in range(len(headings))]
    kinds = [' class="number"' if each else "" for each in numeric]
    heads = "".join(f"<th{kind}>{_escaped(each)}</th>" for kind, each in zip(kinds, headings, strict=True))
    yield f"<table>\n<tr>{heads}</tr>\n"
    for row in body:
        yield f"<tr>{''.join(f'<td{kind}>{_cell(each)}</td>' for kind, each in zip(kinds, row, strict=True))}</tr>\n"
    yield "</table>\n"


def _cell(value: Cell) -> str:
    match value:
        case Markup():
            return value
        case None:
            return ""
        case float():
            return text.number(value)
        case int():
            return f"{value:,}"
        case _:
            return _escaped(value)


def _folded(title: str, inside: Markup) -> Markup:
    return Markup(f"<details><summary>{_escaped(title)}</summary>{inside}</details>")


def _source(content: str) -> Markup:
    return Markup(f"<pre>\n{_escaped(content)}</pre>")


def _escaped(said: str) -> str:
    return html.escape(text.visible(said))
