"""Report of a run as one HTML file. It loads nothing and runs nothing.

Candidates are untrusted: all text is escaped where it enters the page. `Markup` marks the parts made here.
"""

import html
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import store
from atoll.runs import answer, baselines, progress, text_format
from atoll.runs.markdown_report import ReportData, load_report_data, shorten
from atoll.runs.progress import Improvement
from atoll.runs.summary import find_result
from atoll.runs.text_format import summarize_record
from atoll.store.records import queries

WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 16, 36
_MIN_RATIO = 1e-12  # of the largest score; smaller ones are drawn as zero
_LOG_RATIO = 1000.0  # a larger ratio of scores needs a logarithmic scale

type Scale = Callable[[float], float]


def render_curve(improvements: Sequence[Improvement], evaluations: int) -> str:
    """Returns the curve of the best score as an SVG element.

    Args:
        improvements: At least one, each better than the one before.
        evaluations: End of the axis.
    """
    x_scale = _make_linear_scale(1.0, max(float(evaluations), 2.0), LEFT, WIDTH - RIGHT)
    scores = [improvement.score for improvement in improvements]
    scale, is_logarithmic = _choose_scale(scores)
    y_scale = _make_linear_scale(scale(scores[0]), scale(scores[-1]), HEIGHT - BOTTOM, TOP)
    points = [(x_scale(improvement.evaluations), y_scale(scale(improvement.score))) for improvement in improvements]
    path = f"M{_format_point(*points[0])}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:]) + f"H{WIDTH - RIGHT}"
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3">'
        f"<title>{_describe_improvement(improvement)}</title></circle>"
        for (x, y), improvement in zip(points, improvements, strict=True)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="best score over evaluations">'
        f"{_render_axes(scores, evaluations, y_scale(scale(scores[0])), y_scale(scale(scores[-1])), is_logarithmic)}"
        f'<path class="curve" d="{path}"/>{dots}</svg>'
    )


def _choose_scale(scores: Sequence[float]) -> tuple[Scale, bool]:
    """Returns a linear scale, or a logarithmic one if some scores are a thousand times others; and which it is.

    The logarithmic scale is linear around zero, up to the smallest score, so that signs may differ.
    """
    sizes = [abs(score) for score in scores if score]
    if len(scores) < 3 or not sizes or max(sizes) / min(sizes) < _LOG_RATIO:
        largest = max(sizes, default=1.0)
        return (lambda score: score / largest), False  # differences must not overflow
    smallest = max(min(sizes), max(sizes) * _MIN_RATIO)
    return (lambda score: math.copysign(math.log1p(abs(score) / smallest), score)), True


def _make_linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low:
        return lambda value: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _render_axes(scores: Sequence[float], evaluations: int, low: float, high: float, is_logarithmic: bool) -> str:
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    note = "score (logarithmic) over evaluations" if is_logarithmic else "evaluations"
    ticks = {round(low): scores[0], round(high): scores[-1]}
    labels = "".join(
        f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{html.escape(text_format.format_number(score))}</text>'
        for y, score in ticks.items()
    )
    return (
        f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{base}H{right}"/>{labels}'
        f'<text x="{LEFT}" y="{base + 18}">1</text>'
        f'<text x="{(LEFT + right) / 2}" y="{base + 30}" text-anchor="middle">{note}</text>'
        f'<text x="{right}" y="{base + 18}" text-anchor="end">{evaluations:,}</text>'
    )


def _format_point(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"


def _describe_improvement(improvement: Improvement) -> str:
    score = text_format.format_number(improvement.score)
    return _escape(f"{improvement.id}: {score} after {improvement.evaluations:,} evaluations")


NUM_TOP = 20
NUM_EVENTS = 30
NUM_ROWS = 200  # of a table of the result

# A second defense: even with unescaped text a browser loads and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --new: #1a7f37; --old: #cf222e; --curve: #0969da; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } .headline { font-size: 1.35rem; font-weight: 650 }
h2 { font-size: 1.15rem; margin-top: 2.2rem }
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
    """Part of the page, made of escaped text."""

    __slots__ = ()


type Cell = str | int | float | Markup | None


def render_html(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the parts of a page about a run."""
    data = load_report_data(run_store, run_id)
    name = Path(data.summary.task).name
    title = _escape(f"{name}, run {data.summary.run}" if name else f"Run {data.summary.run}")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    result, initial = find_result(run_store, run_id), run_store.candidates(run_id).find("0.0")
    yield from _render_answer(run_store, data, result)
    yield from _render_result(result)
    if data.best is not None:
        best = text_format.format_candidate(data.summary.system, data.best.content)
        yield f"<h2>Best candidate: {_escape(data.best.id)}</h2>\n{_render_code(best)}\n"
        if initial is not None and initial.id != data.best.id:
            entry = progress.LineageEntry(data.best, initial)
            change = _render_cell(_render_change(entry, data.summary.system))
            yield f"<div>Changes to the initial candidate: {change}</div>\n"
    yield from _render_progress(data)
    yield from _render_baselines(data)
    if data.best is not None:
        yield from _render_lineage(data)
        rows = run_store.candidates(run_id).list_best(NUM_TOP)
        yield from _render_top(rows, initial.content if initial else "", data.summary.system)
    yield from _render_islands(data.islands)
    yield from _render_failures(data)
    yield from _render_events(run_store, run_id)
    yield f"<h2>Cost</h2>\n<p>{_escape(data.describe_cost())}</p>\n"
    settings = chr(10).join(data.settings).replace(data.summary.task, _shorten_path(data.summary.task))
    yield f"<h2>Settings</h2>\n{_render_code(settings)}\n</body>\n</html>\n"


def _render_answer(run_store: store.Store, data: ReportData, result: Mapping[str, Any]) -> Iterator[str]:
    """Yields the sentences that the overview of the dashboard begins with."""
    summary, failures = data.summary, data.failure_counts.failures
    config = run_store.get_run(summary.run).config
    target = (config.get("run") or {}).get("target")
    facts = answer.AnswerFacts(
        run=summary.run,
        system=summary.system,
        status=summary.status,
        initial_score=summary.initial_score,
        best_score=summary.best_score,
        evaluations=summary.totals.evaluations,
        failures=summary.totals.failures,
        calls=summary.totals.cost.calls,
        cost_usd=summary.totals.cost.usd,
        tokens=summary.totals.cost.tokens_in + summary.totals.cost.tokens_out,
        task=_shorten_path(summary.task),
        target=target if isinstance(target, int | float) else None,
        evaluations_to_best=data.improvements[-1].evaluations if data.improvements else None,
        baselines=[
            answer.BaselineScore(item.title, item.summary.best_score, item.summary.run, item.summary.status)
            for item in data.baselines
            if item.summary
        ],
        life_scores=answer.load_life_scores(run_store, summary.run, summary.system),
        top_failure=text_format.format_one_line(failures[0].text, 200) if failures else "",
        result=result,
        seeds=answer.load_seed_scores(run_store, answer.find_seed_group(run_store, summary.run)),
        is_baseline=baselines.BASELINE_OF in config,
        is_gain_within_noise=summary.is_gain_within_noise,
    )
    sentences = answer.make_answer(facts)
    yield f'<p class="headline">{_escape(sentences.headline)}</p>\n<ul>\n'
    yield from (f"<li>{_escape(line)}</li>\n" for line in sentences.details)
    yield f"</ul>\n<p>{_escape(data.describe_run(str))}</p>\n<p>{_escape(data.describe_outcome())}</p>\n"
    if sentences.next_steps:
        yield "<h2>What to do next</h2>\n<ul>\n"
        for step in sentences.next_steps:
            command = f" <code>{_escape(step.command)}</code>" if step.command else ""
            yield f"<li>{_escape(step.text)}{command}</li>\n"
        yield "</ul>\n"


def _shorten_path(path: str) -> str:
    """Returns a path relative to this folder, if it is below."""
    return Path(path).relative_to(Path.cwd()).as_posix() if path and Path(path).is_relative_to(Path.cwd()) else path


def _render_result(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the system found: values by name, and a table for every list of rows."""
    values_by_name = {name: value for name, value in result.items() if name != "predictions"}
    if not values_by_name:
        return
    yield "<h2>Result</h2>\n"
    values = [
        (name, _format_value(value)) for name, value in values_by_name.items() if not isinstance(value, list | tuple)
    ]
    yield from _render_table(("name", "value"), values)
    for name, rows in values_by_name.items():
        if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
            cells = [[_format_value(row.get(column)) for column in rows[0]] for row in rows[:NUM_ROWS]]
            table = Markup("".join(_render_table([str(column) for column in rows[0]], cells)))
            yield _render_details(f"{name}: {len(rows):,}", table)


def _format_value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _render_events(run_store: store.Store, run_id: str) -> Iterator[str]:
    records = queries.RecordQueries(run_store, run_id).list_before(sys.maxsize, NUM_EVENTS)
    yield "<h2>Last records</h2>\n"
    rows = [
        (record.seq, record.kind, record.step, "all" if record.island < 0 else record.island, summarize_record(record))
        for record in records
    ]
    yield from _render_table(("record", "kind", "iteration", "island", "summary"), rows)


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
    yield f"<h2>Best score over evaluations</h2>\n{render_curve(data.improvements, data.summary.totals.evaluations)}\n"
    rows: list[Sequence[Cell]] = [tuple(improvement) for improvement in data.improvements]
    gap: Sequence[Cell] = ("…", None, None, None)
    table = _render_table(("evaluations", "score", "candidate", "island"), shorten(rows, gap))
    yield _render_details(f"{len(rows):,} improvements", Markup("".join(table)))


def _render_top(rows: Iterable[store.Row], initial: str, system: str) -> Iterator[str]:
    yield "<h2>Best candidates</h2>\n"

    def render_source(content: str) -> Markup:
        source = _render_code(text_format.format_candidate(system, content))
        return _render_details(text_format.summarize_candidate(system, content, initial, 80), source)

    cells = [(row.id, row.island, row.step, row.score, render_source(row.content)) for row in rows]
    yield from _render_table(("candidate", "island", "iteration", "score", "new lines"), cells)


def _render_lineage(data: ReportData) -> Iterator[str]:
    yield "<h2>Lineage of the best candidate</h2>\n"
    cells = list[Sequence[Cell]]()
    for entry in data.best_lineage:
        row = entry.row
        values = {name: value for name, value in row.meta.items() if not isinstance(value, Mapping | list | tuple)}
        details = text_format.format_one_line(text_format.format_pairs(values), 80)
        change = _render_change(entry, data.summary.system)
        cells.append((row.id, row.island, row.score, entry.gain, details, change))
    gap: Sequence[Cell] = ("…", None, None, None, None, None)
    yield from _render_table(("candidate", "island", "score", "gain", "details", "change"), shorten(cells, gap))


def _render_change(entry: progress.LineageEntry, system: str) -> Cell:
    if entry.parent is None:
        return "initial"
    names = (entry.parent.id, entry.row.id)
    before, after = (text_format.format_candidate(system, row.content) for row in (entry.parent, entry.row))
    lines = [_render_diff_line(line) for line in text_format.iter_diff_lines(before, after, *names)]
    if not lines:
        return "none"
    return _render_details(f"against {entry.parent.id}", Markup(f"<pre>{chr(10).join(lines)}</pre>"))


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
    for title, reasons in zip(("Failures", "Rejected by a gate"), data.failure_counts, strict=True):
        if reasons:
            yield f"<h2>{title}</h2>\n"
            cells = [(reason.count, reason.source, text_format.format_one_line(reason.text, 400)) for reason in reasons]
            yield from _render_table(("count", "by", "reason"), cells)


def _render_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    row_list = list(rows)
    numeric = [any(isinstance(row[index], int | float) for row in row_list) for index in range(len(headings))]
    kinds = [' class="number"' if is_numeric else "" for is_numeric in numeric]
    heads = "".join(f"<th{kind}>{_escape(heading)}</th>" for kind, heading in zip(kinds, headings, strict=True))
    yield f"<table>\n<tr>{heads}</tr>\n"
    for row in row_list:
        cells = (f"<td{kind}>{_render_cell(value)}</td>" for kind, value in zip(kinds, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</table>\n"


def _render_cell(value: Cell) -> str:
    match value:
        case Markup():
            return value
        case None:
            return ""
        case float():
            return text_format.format_number(value)
        case int():
            return f"{value:,}"
        case _:
            return _escape(value)


def _render_details(title: str, content: Markup) -> Markup:
    return Markup(f"<details><summary>{_escape(title)}</summary>{content}</details>")


def _render_code(content: str) -> Markup:
    return Markup(f"<pre>\n{_escape(content)}</pre>")


def _escape(content: str) -> str:
    return html.escape(text_format.escape_control(content))
