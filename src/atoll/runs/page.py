"""A run as one file for a browser: nothing is loaded from anywhere, nothing in it runs.

Candidates are foreign text, and all text is escaped where it enters the page; `Markup` is what was made here.
"""

import html
import sys
from collections.abc import Iterable, Iterator, Sequence

from atoll import store
from atoll.runs import baselines, curve, looks, progress, text
from atoll.runs.gists import summarize_record
from atoll.runs.report import ReportData, load_report_data, shorten
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


def render_html(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the pieces of a page about a run.

    Raises:
        NotFound: There is no such run.
    """
    data = load_report_data(run_store, run_id)
    title = _escape(f"Run {data.summary.run}")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    yield f"<p>{_escape(data.describe_run(str))}</p>\n<p>{_escape(data.describe_outcome())}</p>\n"
    yield from _render_baselines(data)
    yield from _render_progress(data)
    if data.best is not None:
        best = looks.format_candidate(data.summary.system, data.best.content)
        yield f"<h2>The best candidate, {_escape(data.best.id)}</h2>\n{_render_code(best)}\n"
        yield from _render_lineage(data)
        initial = run_store.candidates(run_id).find("0.0")
        rows = run_store.candidates(run_id).list_best(NUM_TOP)
        yield from _render_top(rows, initial.content if initial else "", data.summary.system)
    yield from _render_islands(data.islands)
    yield from _render_failures(data)
    yield from _render_events(run_store, run_id)
    yield f"<h2>Cost</h2>\n<p>{_escape(data.describe_cost())}</p>\n"
    yield f"<h2>Set-up</h2>\n{_render_code(chr(10).join(data.settings))}\n</body>\n</html>\n"


def _render_events(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the end of the journal."""
    records = events.RecordQueries(run_store, run_id).list_before(sys.maxsize, NUM_EVENTS)
    yield "<h2>The last events</h2>\n"
    rows = [(record.seq, record.kind, record.step, "all" if record.island < 0 else record.island, summarize_record(record)) for record in records]
    yield from _render_table(("event", "kind", "step", "island", "what"), rows)


def _render_baselines(data: ReportData) -> Iterator[str]:
    lines = list(baselines.format_lines(data.baselines, data.summary.best_score, data.summary.run))
    if len(lines) == 1:
        yield f"<p>{_escape(lines[0])}</p>\n"
        return
    yield f"<h2>Baselines</h2>\n<p>{_escape(lines[0])}</p>\n"
    rows = [baselines.format_cells(baseline, data.summary.best_score) for baseline in data.baselines]
    yield from _render_table(baselines.COLUMNS, rows)


def _render_progress(data: ReportData) -> Iterator[str]:
    if not data.improvements:
        return
    yield f"<h2>Best score over evaluations</h2>\n{curve.render_curve(data.improvements, data.summary.totals.evaluations)}\n"
    rows = [(improvement.evaluations, improvement.score, improvement.id, improvement.island) for improvement in data.improvements]
    gap: Sequence[Cell] = ("…", None, None, None)
    table = _render_table(("evaluations", "score", "candidate", "island"), shorten(rows, gap))
    yield _render_details(f"{len(rows):,} improvements", Markup("".join(table)))


def _render_top(rows: Iterable[store.Row], initial: str, system: str) -> Iterator[str]:
    yield "<h2>The best candidates</h2>\n"

    def render_source(row: store.Row) -> Markup:
        return _render_details(looks.summarize_candidate(system, row.content, initial, 80), _render_code(looks.format_candidate(system, row.content)))

    cells = [(row.id, row.island, row.step, row.score, render_source(row)) for row in rows]
    yield from _render_table(("candidate", "island", "step", "score", "what is new"), cells)


def _render_lineage(data: ReportData) -> Iterator[str]:
    yield "<h2>From the best back to the start</h2>\n"
    cells: list[Sequence[Cell]] = [
        (
            entry.row.id,
            entry.row.island,
            entry.row.score,
            entry.gain,
            text.format_one_line(text.format_pairs(entry.row.meta), 80),
            _render_change(entry, data.summary.system),
        )
        for entry in data.best_lineage
    ]
    gap: Sequence[Cell] = ("…", None, None, None, None, None)
    yield from _render_table(("candidate", "island", "score", "gain", "how", "change"), shorten(cells, gap))


def _render_change(entry: progress.LineageEntry, system: str) -> Cell:
    if entry.parent is None:
        return "the start"
    names = (entry.parent.id, entry.row.id)
    before, after = (looks.format_candidate(system, row.content) for row in (entry.parent, entry.row))
    lines = [_render_diff_line(line) for line in text.iter_diff_lines(before, after, *names)]
    return _render_details(f"against {entry.parent.id}", Markup(f"<pre>{chr(10).join(lines)}</pre>")) if lines else "none"


def _render_diff_line(line: str) -> str:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    kind = kinds.get(line[:1])
    return f'<span class="{kind}">{_escape(line)}</span>' if kind else _escape(line)


def _render_islands(islands: Sequence[progress.IslandSummary]) -> Iterator[str]:
    if not islands:
        return
    yield "<h2>Islands</h2>\n"
    cells = [(island.index, island.best_id, island.best_score, *island.counts.values()) for island in islands]
    yield from _render_table(("island", "best", "score", *islands[0].counts), cells)


def _render_failures(data: ReportData) -> Iterator[str]:
    for title, reasons in (("Failures", data.failure_counts.failures), ("Kept out by a gate", data.failure_counts.rejections)):
        if reasons:
            yield f"<h2>{title}</h2>\n"
            yield from _render_table(("count", "by", "reason"), [(reason.count, reason.source, text.format_one_line(reason.text, 400)) for reason in reasons])


def _render_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    row_list = list(rows)
    numeric = [any(isinstance(row[index], int | float) for row in row_list) for index in range(len(headings))]
    kinds = [' class="number"' if is_numeric else "" for is_numeric in numeric]
    heads = "".join(f"<th{kind}>{_escape(heading)}</th>" for kind, heading in zip(kinds, headings, strict=True))
    yield f"<table>\n<tr>{heads}</tr>\n"
    for row in row_list:
        yield f"<tr>{''.join(f'<td{kind}>{_render_cell(value)}</td>' for kind, value in zip(kinds, row, strict=True))}</tr>\n"
    yield "</table>\n"


def _render_cell(value: Cell) -> str:
    match value:
        case Markup():
            return value
        case None:
            return ""
        case float():
            return text.format_number(value)
        case int():
            return f"{value:,}"
        case _:
            return _escape(value)


def _render_details(title: str, content: Markup) -> Markup:
    return Markup(f"<details><summary>{_escape(title)}</summary>{content}</details>")


def _render_code(content: str) -> Markup:
    return Markup(f"<pre>\n{_escape(content)}</pre>")


def _escape(content: str) -> str:
    return html.escape(text.escape_control(content))
