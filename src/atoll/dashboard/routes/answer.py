"""Answer of a run, and comparison of several: what was found, how sure, with which settings."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from atoll import errors, noise, runs, store
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import MAX_TEXT, CacheDep, RunId, StatusReaderDep, StoreDep
from atoll.dashboard.run_status import RunRow, RunStatusReader
from atoll.dashboard.run_totals import FailureGroup
from atoll.runs import answer, baselines, comparison, html_export, text_format
from atoll.store.candidates import Row

READ_SECONDS = 0.15
MAX_COMPARED = 60
MAX_POINTS = 400  # per curve
MAX_FAILURES = 50
MAX_VALUE = 400  # characters of a setting

router = APIRouter(prefix="/api", tags=["runs"])


class Step(BaseModel):
    """Advice; `command` may be empty."""

    text: str
    command: str


class FailureRow(BaseModel):
    """Failures with one reason. `source` is proposal, evaluation or gate; `examples` are candidates or iterations."""

    count: int
    source: str
    text: str
    examples: list[str]


class BestCandidate(BaseModel):
    """Best candidate as text, with its diff to the initial one."""

    id: str
    score: float | None
    text: text_limits.Text
    diff: text_limits.Difference | None
    metrics: dict[str, float]
    warning: str


class Setting(BaseModel):
    name: str
    value: str


class SeedSummary(BaseModel):
    """Final scores of the runs with the same settings but other seeds."""

    runs: list[str]
    scores: list[float]
    median: float
    low: float
    high: float


class Answer(BaseModel):
    """Answer of a run. `result` is what the system wrote, such as problems, lives or a law.

    Until `is_counted`, cost and failures cover the share `counted` of the journal.
    """

    run: str
    headline: str
    details: list[str]
    next_steps: list[Step]
    best: BestCandidate | None
    failures: list[FailureRow]
    num_failures: int
    settings: list[Setting]
    seeds: SeedSummary | None
    metrics: list[str]
    result: dict[str, Any]
    is_counted: bool
    counted: float


@router.get("/runs/{run}/answer")
def show_answer(run_store: StoreDep, run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> Answer:
    """Returns what a run found, how much better it is, at what cost, and what to do next."""
    status = read_status(run, READ_SECONDS)
    stamp = status.totals.end, status.get_status()[0]
    return cache.get(
        ("answer", run, status.totals.is_counted), stamp, lambda: _make_answer(run_store, status, read_status)
    )


def _make_answer(run_store: store.Store, status: RunStatusReader, read_status: Any) -> Answer:
    row, totals, run = status.make_row(), status.totals, status.run.id
    failures = totals.list_failures()
    group = [run] if row.group is None else answer.find_seed_group(run_store, run)
    seeds = answer.load_seed_scores(run_store, group)
    best_step = int(row.best.partition(".")[0]) if row.best and totals.is_counted else None
    candidates = run_store.candidates(run)
    initial_candidate, best_candidate = candidates.find("0.0"), candidates.find(row.best) if row.best else None
    facts = answer.AnswerFacts(
        run=run,
        system=row.system,
        status=row.status,
        initial_score=row.initial_score,
        best_score=row.best_score,
        evaluations=row.evaluations,
        failures=sum(group.num_failures for group in failures if group.source != "gate"),
        calls=row.calls,
        cost_usd=row.cost_usd,
        tokens=row.tokens,
        task=row.task,
        target=row.target,
        evaluations_to_best=None if best_step is None else totals.get_usage_at(best_step).evaluations,
        seconds=row.seconds,
        baselines=list(_iter_baselines(run_store, run, read_status)),
        top_failure=next((group.text for group in failures if group.source != "gate"), ""),
        result=totals.result,
        seeds=seeds,
        life_scores=answer.load_life_scores(run_store, run, row.system),
        is_baseline=row.baseline_of is not None,
        is_gain_within_noise=_is_gain_within_noise(initial_candidate, best_candidate),
        is_counted=totals.is_counted,
    )
    sentences = answer.make_answer(facts)
    best = _make_best(text_format.get_system_name(run_store, run), initial_candidate, best_candidate)
    return Answer(
        run=run,
        headline=text_limits.limit_text(sentences.headline, 2000),
        details=[text_limits.limit_text(line, 2000) for line in sentences.details],
        next_steps=[Step(**text_limits.to_json_data(step._asdict(), 2000)) for step in sentences.next_steps],
        best=best,
        failures=[_make_failure_row(group) for group in failures[:MAX_FAILURES]],
        num_failures=sum(group.num_failures for group in failures),
        settings=list(iter_settings(status.run.config)),
        seeds=None if seeds is None else _summarize_seeds(group, seeds.scores),
        metrics=sorted(best.metrics) if best else [],
        result=text_limits.to_json_data(totals.result, 4000),
        is_counted=totals.is_counted,
        counted=totals.seq / totals.end if totals.end else 1.0,
    )


def _make_failure_row(group: FailureGroup) -> FailureRow:
    return FailureRow(
        count=group.num_failures,
        source=group.source,
        text=text_limits.limit_text(group.text, 2000),
        examples=[text_limits.replace_invalid(example) for example in group.examples],
    )


def _iter_baselines(run_store: store.Store, run: str, read_status: Any) -> Iterator[answer.BaselineScore]:
    for stored_run in run_store.list_runs():
        if stored_run.config.get(baselines.BASELINE_OF) == run:
            name = str(stored_run.config.get("baseline", ""))
            row = read_status(stored_run.id, 0.0).make_row()
            yield answer.BaselineScore(baselines.TITLES.get(name, name), row.best_score, stored_run.id, row.status)


def _is_gain_within_noise(initial: Row | None, best: Row | None) -> bool:
    if initial is None or best is None or initial.score is None or best.score is None:
        return False
    score_errors = noise.get_error(initial.metrics), noise.get_error(best.metrics)
    return noise.is_within_noise(best.score - initial.score, *score_errors)


def _make_best(system: str, initial: Row | None, best: Row | None) -> BestCandidate | None:
    if best is None:
        return None
    text = text_format.format_candidate(system, best.content)
    diff = None
    if initial is not None and initial.id != best.id:
        diff = text_limits.compare_texts(initial.id, text_format.format_candidate(system, initial.content), text)
    return BestCandidate(
        id=best.id,
        score=best.score,
        text=text_limits.truncate(text),
        diff=diff,
        metrics=text_limits.to_json_data(best.metrics),
        warning=text_limits.limit_text(best.failure or "", 400),
    )


def _summarize_seeds(run_ids: Sequence[str], scores: Sequence[float]) -> SeedSummary:
    return SeedSummary(
        runs=list(run_ids), scores=list(scores), median=statistics.median(scores), low=min(scores), high=max(scores)
    )


def iter_settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[Setting]:
    """Yields the settings of a run with dotted names, without unset ones."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value and not prefix.startswith("files"):
            yield from iter_settings(value, f"{prefix}{name}.")
        elif value is not None and value != {}:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield Setting(
                name=text_limits.limit_text(f"{prefix}{name}", 200), value=text_limits.limit_text(text, MAX_VALUE)
            )


@router.get("/runs/{run}/page", response_class=Response, responses={200: {"content": {"text/html": {}}}})
def download_page(run_store: StoreDep, run: RunId) -> Response:
    """Returns the run as one HTML file to share; it loads nothing and runs nothing."""
    page = "".join(html_export.render_html(run_store, run)).encode("utf-8", "replace")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{text_limits.quote_name(run)}.html"}
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


class CurvePoint(BaseModel):
    evaluations: int
    calls: int
    cost_usd: float
    seconds: float | None
    score: float


class ComparedRun(BaseModel):
    """A run in a comparison. `gain` is the best minus the initial score; `points` are its improvements."""

    row: RunRow
    gain: float | None
    evaluations_to_best: int | None
    points: list[CurvePoint]
    settings: dict[str, str]


class Group(BaseModel):
    """Runs with the same settings but other seeds. The interval contains the middle half of the scores."""

    key: str
    runs: list[str]
    median: float
    low: float
    high: float
    quartile_low: float
    quartile_high: float


class Comparison(BaseModel):
    """Several runs. `different` are the names of the settings that differ."""

    runs: list[ComparedRun]
    groups: list[Group]
    different: list[str]
    is_same_task: bool


@router.get("/compare")
def compare_runs(
    run_store: StoreDep,
    read_status: StatusReaderDep,
    run: Annotated[list[Annotated[str, Query(max_length=MAX_TEXT)]], Query(max_length=MAX_COMPARED)],
) -> Comparison:
    """Compares runs: curves, final scores, groups of seeds, and the settings that differ."""
    ids = list(dict.fromkeys(runs.find_run(run_store, name) for name in run))
    if not ids:
        raise errors.SetupError("Name at least one run: `?run=ID&run=ID`.")
    compared = [_compare_one(read_status(id, READ_SECONDS / len(ids))) for id in ids]
    tasks = {comparison.get_task_key(run_store.get_run(id).config) for id in ids}
    names = sorted({name for item in compared for name in item.settings})
    return Comparison(
        runs=compared,
        groups=list(_iter_groups(compared)),
        different=[name for name in names if len({item.settings.get(name) for item in compared}) > 1],
        is_same_task=len(tasks) == 1 and None not in tasks,
    )


def _compare_one(status: RunStatusReader) -> ComparedRun:
    row, points = status.make_row(), []
    improvements = status.totals.list_improvements()
    for improvement in improvements[-MAX_POINTS:]:
        usage = status.totals.get_usage_at(improvement.step)._asdict()
        del usage["tokens"]
        points.append(CurvePoint(**usage, score=improvement.score))
    has_gain = row.best_score is not None and row.initial_score is not None
    return ComparedRun(
        row=row,
        gain=(row.best_score or 0.0) - (row.initial_score or 0.0) if has_gain else None,
        evaluations_to_best=points[-1].evaluations if points else None,
        points=points,
        settings={setting.name: setting.value for setting in iter_settings(status.run.config)},
    )


def _iter_groups(compared: Sequence[ComparedRun]) -> Iterator[Group]:
    members: dict[str, list[RunRow]] = {}
    for item in compared:
        if item.row.group is not None and item.row.best_score is not None:
            members.setdefault(item.row.group, []).append(item.row)
    for key, rows in members.items():
        scores = sorted(row.best_score for row in rows if row.best_score is not None)
        quartiles = statistics.quantiles(scores, method="inclusive") if len(scores) > 1 else [scores[0]] * 3
        yield Group(
            key=key,
            runs=[row.id for row in rows],
            median=statistics.median(scores),
            low=scores[0],
            high=scores[-1],
            quartile_low=quartiles[0],
            quartile_high=quartiles[2],
        )
