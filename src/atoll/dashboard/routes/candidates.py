"""Candidates of a run: lists, details, sources and artifacts."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, Field

from atoll import errors, store
from atoll.dashboard import dependencies, text_limits
from atoll.dashboard.dependencies import MAX_TEXT, After, Limit, RunId, StoreDep
from atoll.evaluation import BlobRef
from atoll.runs import progress, text_format
from atoll.store.candidates import queries as candidates_queries
from atoll.store.records import queries as records_queries

MAX_PARENTS = 10  # with a diff each
MAX_SCORES = 5000
MAX_ARTIFACTS = 200
MAX_CALLS = 50
MAX_HEAD = 400  # characters of an artifact in a list
MAX_BODY = 4 << 20  # maximum size of one download part

router = APIRouter(prefix="/api/runs/{run}", tags=["candidates"])

CandidateId = Annotated[str, Path(max_length=MAX_TEXT, description="Id such as 12.0, a version, `best` or `initial`.")]
Offset = Annotated[int, Query(ge=0, le=1 << 40, description="First position.")]


class CandidateRow(BaseModel):
    """A candidate in a list. `verdict` is null for trials and until the iteration is applied."""

    id: str
    step: int
    island: int
    score: float | None
    verdict: str | None
    version: str | None
    is_draft: bool


class CandidatePage(BaseModel):
    candidates: list[CandidateRow]
    next: str | None


class Artifact(BaseModel):
    """Named output of an evaluation; `head` is its beginning."""

    name: str
    size: int
    head: str
    url: str


class Call(BaseModel):
    """One LLM call of the iteration that created a candidate."""

    call: str
    model: str
    prompt: text_limits.Text
    reply: text_limits.Text
    seconds: float
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Candidate(CandidateRow):
    """Details of a candidate. `shown` is its display text if that differs from its content."""

    parents: list[str]
    content: text_limits.Text
    display_text: Annotated[text_limits.Text | None, Field(serialization_alias="shown")]
    diffs: list[text_limits.Difference]
    scores: list[float]
    num_scores: int
    metrics: dict[str, float]
    feedback: text_limits.Text
    failure: text_limits.Text | None
    meta: dict[str, Any]
    artifacts: list[Artifact]
    reason: text_limits.Text | None
    by: str | None
    calls: list[Call]
    num_calls: int


@router.get("/candidates")
def list_candidates(
    run_store: StoreDep,
    run: RunId,
    sort: Literal["newest", "oldest", "best", "worst"] = "newest",
    island: Annotated[int | None, Query(ge=-1, le=1 << 31)] = None,
    failed: Annotated[bool | None, Query(description="Only candidates without a score, or only with one.")] = None,
    drafts: Annotated[bool | None, Query(description="Only trials, or no trials.")] = None,
    verdict: Annotated[Literal["accept", "hold", "reject"] | None, Query()] = None,
    min_score: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    id: Annotated[str, Query(max_length=MAX_TEXT, description="Id, iteration or version.")] = "",
    limit: Limit = 100,
    after: After = None,
) -> CandidatePage:
    """Lists candidates by iteration or by score, with filters."""
    kinds: tuple[type | tuple[type, ...], ...] = (int, bool, int)
    kinds = ((int, float), *kinds) if sort in ("best", "worst") else kinds
    position = dependencies.parse_cursor(after, *kinds) if after else None
    row_filter = candidates_queries.CandidateFilter(island, failed, drafts, verdict, min_score, id)
    heads = candidates_queries.CandidateQueries(run_store, run).list_page(row_filter, sort, position, limit)
    next_cursor = (
        dependencies.make_cursor(*candidates_queries.get_sort_key(heads[-1], sort)) if len(heads) == limit else None
    )
    return CandidatePage(candidates=[_make_row(head) for head in heads], next=next_cursor)


@router.get("/candidates/{id}")
def show_candidate(run_store: StoreDep, run: RunId, id: CandidateId) -> Candidate:
    """Returns a candidate with its source, diffs to its parents, evaluation and LLM calls."""
    row = progress.find_candidate(run_store, run, id)
    head = candidates_queries.CandidateQueries(run_store, run).find([row.id])[row.id]
    queries = records_queries.RecordQueries(run_store, run)
    calls = _list_calls(queries, head)
    display_text = text_format.format_candidate(text_format.get_system_name(run_store, run), row.content)
    return Candidate(
        **_make_row(head).model_dump(),
        parents=list(map(text_limits.replace_invalid, row.parents)),
        content=text_limits.truncate(row.content),
        display_text=text_limits.truncate(display_text) if display_text != row.content else None,
        diffs=_compare_with_parents(run_store, run, row),
        scores=list(row.scores[:MAX_SCORES]),
        num_scores=len(row.scores),
        metrics=text_limits.to_json_data(row.metrics),
        feedback=text_limits.truncate(row.feedback),
        failure=text_limits.truncate(row.failure) if row.failure is not None else None,
        meta=text_limits.to_json_data(row.meta),
        artifacts=_list_artifacts(queries, head, run),
        reason=text_limits.truncate(row.reason) if row.reason is not None else None,
        by=None if row.by is None else text_limits.limit_text(row.by),
        calls=calls[:MAX_CALLS],
        num_calls=len(calls),
    )


@router.get("/candidates/{id}/source", response_class=PlainTextResponse)
def download_source(run_store: StoreDep, run: RunId, id: CandidateId, offset: Offset = 0) -> Response:
    """Returns the source as plain text from an offset in characters; `X-Size` is the full length."""
    content = progress.find_candidate(run_store, run, id).content
    return _make_text_response(content[offset : offset + MAX_BODY], f"{id}.txt", len(content))


@router.get("/candidates/{id}/artifacts/{name}", response_class=PlainTextResponse)
def download_artifact(
    run_store: StoreDep,
    run: RunId,
    id: CandidateId,
    name: Annotated[str, Path(max_length=MAX_TEXT)],
    offset: Offset = 0,
) -> Response:
    """Returns an artifact as a plain-text download; `X-Size` is the full length in bytes."""
    row = progress.find_candidate(run_store, run, id)
    head = candidates_queries.CandidateQueries(run_store, run).find([row.id])[row.id]
    refs = {
        text_limits.replace_invalid(artifact_name): ref
        for artifact_name, ref in _load_artifact_refs(records_queries.RecordQueries(run_store, run), head).items()
    }
    blob_ref = refs.get(name)
    if blob_ref is None:
        raise errors.NotFound(f"Candidate {row.id} has no artifact {name}.")
    body = run_store.blobs().load_blob(blob_ref)
    return _make_text_response(body[offset : offset + MAX_BODY].decode("utf-8", "replace"), name, len(body))


def _make_row(head: candidates_queries.CandidateHead) -> CandidateRow:
    return CandidateRow(
        id=head.id,
        step=head.step,
        island=head.island,
        score=head.score,
        verdict=head.verdict,
        version=head.version,
        is_draft=head.is_draft,
    )


def _compare_with_parents(run_store: store.Store, run: str, row: store.Row) -> list[text_limits.Difference]:
    rows = run_store.candidates(run)
    parents = [parent_row for id in dict.fromkeys(row.parents[:MAX_PARENTS]) if (parent_row := rows.find(id))]
    return [text_limits.compare_texts(parent.id, parent.content, row.content) for parent in parents]


def _load_artifact_refs(
    queries: records_queries.RecordQueries, head: candidates_queries.CandidateHead
) -> Mapping[str, BlobRef]:
    data = _load_data(queries, head)
    artifacts = (data.get("evaluation") or {}).get("artifacts") or {}
    return {name: BlobRef(*ref) for name, ref in artifacts.items()}


def _list_artifacts(
    queries: records_queries.RecordQueries, head: candidates_queries.CandidateHead, run: str
) -> list[Artifact]:
    refs = list(_load_artifact_refs(queries, head).items())[:MAX_ARTIFACTS]
    base = f"/api/runs/{run}/candidates/{head.id}/artifacts"
    return [
        Artifact(
            name=text_limits.replace_invalid(name),
            size=ref.size,
            head=text_limits.replace_invalid(ref.head[:MAX_HEAD]),
            url=f"{base}/{text_limits.quote_name(name)}",
        )
        for name, ref in refs
    ]


def _load_data(queries: records_queries.RecordQueries, head: candidates_queries.CandidateHead) -> Mapping[str, Any]:
    """Returns the record data of a candidate: its evaluation, or its entry among the children of its iteration."""
    records = queries.list_by_seq([head.seq])
    data = queries.load_data(records[0]) if records else {}
    if data.get("id") == head.id:
        return data
    return next((child for child in data.get("children", ()) if child.get("id") == head.id), {})


def _list_calls(queries: records_queries.RecordQueries, head: candidates_queries.CandidateHead) -> list[Call]:
    if head.step == 0:
        return []
    return [
        _make_call(queries.load_data(call_record)) for call_record in queries.iter_step(head.step, "replied", head.seq)
    ]


def _make_call(data: Mapping[str, Any]) -> Call:
    usage: Sequence[Any] = data.get("usage") or (0.0, 0, 0, 0.0, 0)
    return Call(
        call=text_limits.limit_text(str(data.get("call", ""))),
        model=text_limits.limit_text(str(data.get("model") or ""), 300),
        prompt=text_limits.truncate(str(data.get("prompt") or "")),
        reply=text_limits.truncate(str(data.get("text") or "")),
        seconds=usage[0],
        tokens_in=usage[1],
        tokens_out=usage[2],
        cost_usd=usage[3],
    )


def _make_text_response(text: str, name: str, size: int) -> Response:
    """Returns untrusted text as a download that browsers do not render."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{text_limits.quote_name(name)}",
        "x-size": str(size),
    }
    return PlainTextResponse(text_limits.replace_invalid(text), headers=headers)
