"""Candidates of a run: lists, details, sources and artifacts."""

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Path, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, Field

from atoll import errors, store
from atoll.dashboard import dependencies, text_limits
from atoll.dashboard.dependencies import MAX_TEXT, After, Limit, RunId, StoreDep
from atoll.evaluation import BlobRef
from atoll.llm.base import split_stored_prompt
from atoll.runs import progress, text_format
from atoll.store import candidate_queries as candidates_queries
from atoll.store.records import json_codec
from atoll.store.records import queries as records_queries

SEARCH_SECONDS = 0.25  # time limit of a text search
SEARCH_BATCH = 200
MAX_LINE, MAX_MESSAGES = 240, 50
ERROR_NAME = re.compile(r"stderr|error|traceback|exception", re.IGNORECASE)  # artifacts with error output
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
    """A candidate in a list. `verdict` is null for trials and until the iteration is applied.

    `why` is the failure, else the reason of the gate. `warning` is the first line of an error output of a candidate
    that has a score. `change` describes the edit of the parent, `cost_usd` is that of its iteration, `at` is the time
    of its evaluation in seconds since 1970.
    """

    id: str
    step: int
    island: int
    score: float | None
    verdict: str | None
    version: str | None
    is_draft: bool
    parents: list[str]
    mutator: str
    model: str
    change: str
    failed: bool
    why: str
    warning: str
    cost_usd: float | None
    num_llm_calls: int | None
    at: float | None


class CandidatePage(BaseModel):
    """Candidates. A text search has a time limit: with `is_done` false, `next` continues it."""

    candidates: list[CandidateRow]
    next: str | None
    is_done: bool = True


class Artifact(BaseModel):
    """Named output of an evaluation; `head` is its beginning."""

    name: str
    size: int
    head: str
    url: str


class Message(BaseModel):
    role: str
    text: text_limits.Text


class Call(BaseModel):
    """One LLM call of the iteration that created a candidate; `messages` are the parts of the prompt by role."""

    call: str
    model: str
    prompt: text_limits.Text
    messages: list[Message]
    reply: text_limits.Text
    seconds: float
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Candidate(CandidateRow):
    """Details of a candidate. `shown` is its display text if that differs from its content.

    `edited` is the parent that was edited; its diff is the first one.
    """

    edited: str | None
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
    q: Annotated[str, Query(max_length=MAX_TEXT, description="Text in the candidate, its feedback or failure.")] = "",
    limit: Limit = 100,
    after: After = None,
) -> CandidatePage:
    """Lists candidates by iteration or by score, with filters."""
    # Candidates without a score have no best and no worst.
    order = "newest" if failed and sort in ("best", "worst") else sort
    kinds: tuple[type | tuple[type, ...], ...] = (int, bool, int)
    kinds = ((int, float), *kinds) if order in ("best", "worst") else kinds
    position = dependencies.parse_cursor(after, *kinds) if after else None
    row_filter = candidates_queries.CandidateFilter(island, failed, drafts, verdict, min_score, id)
    queries = candidates_queries.CandidateQueries(run_store, run)
    records = records_queries.RecordQueries(run_store, run)
    if q:
        return _search_text(queries, records, PageRequest(row_filter, order, position, limit), q)
    heads = queries.list_page(row_filter, order, position, limit)
    next_cursor = (
        dependencies.make_cursor(*candidates_queries.get_sort_key(heads[-1], order)) if len(heads) == limit else None
    )
    return CandidatePage(candidates=_make_rows(records, heads), next=next_cursor)


class PageRequest(NamedTuple):
    row_filter: candidates_queries.CandidateFilter
    order: candidates_queries.SortOrder
    position: Sequence[Any] | None
    limit: int


def _search_text(
    queries: candidates_queries.CandidateQueries, records: records_queries.RecordQueries, page: PageRequest, text: str
) -> CandidatePage:
    """Searches candidates that contain a text, in the order of the list, for a limited time."""
    deadline, pattern, position = time.monotonic() + SEARCH_SECONDS, text.casefold(), page.position
    matches: list[candidates_queries.CandidateHead] = []
    is_done = False
    while not is_done and len(matches) < page.limit and time.monotonic() < deadline:
        heads = queries.list_page(page.row_filter, page.order, position, SEARCH_BATCH)
        texts = {record.seq: record for record in records.list_by_seq(sorted({head.seq for head in heads}))}
        is_done = len(heads) < SEARCH_BATCH
        for head in heads:
            position = candidates_queries.get_sort_key(head, page.order)
            if head.seq in texts and pattern in _get_searched_text(records, texts[head.seq], head.id):
                matches.append(head)
                if len(matches) == page.limit:
                    is_done = False
                    break
    next_cursor = None if is_done or position is None else dependencies.make_cursor(*position)
    return CandidatePage(candidates=_make_rows(records, matches), next=next_cursor, is_done=is_done)


def _get_searched_text(records: records_queries.RecordQueries, record: records_queries.NumberedRecord, id: str) -> str:
    data = _get_own_data(records.load_data(record), id)
    result = data.get("evaluation") or {}
    texts = (data.get("content"), *map(result.get, ("feedback", "failure")), data.get("meta"))
    return "\n".join(str(text) for text in texts if text).casefold()


@router.get("/candidates/{id}")
def show_candidate(run_store: StoreDep, run: RunId, id: CandidateId) -> Candidate:
    """Returns a candidate with its source, diffs to its parents, evaluation and LLM calls."""
    row = progress.find_candidate(run_store, run, id)
    head = candidates_queries.CandidateQueries(run_store, run).find([row.id])[row.id]
    queries = records_queries.RecordQueries(run_store, run)
    calls = _list_calls(queries, head)
    diffs = _compare_with_parents(run_store, run, row)
    display_text = text_format.format_candidate(text_format.get_system_name(run_store, run), row.content)
    return Candidate(
        **_make_rows(queries, [head])[0].model_dump(),
        edited=diffs[0].parent if diffs else None,
        content=text_limits.truncate(row.content),
        display_text=text_limits.truncate(display_text) if display_text != row.content else None,
        diffs=diffs,
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


def _make_rows(
    queries: records_queries.RecordQueries, heads: Sequence[candidates_queries.CandidateHead]
) -> list[CandidateRow]:
    """Returns rows with what the records of the candidates and of their decisions say."""
    seqs = sorted({head.seq for head in heads} | {head.decided for head in heads if head.decided is not None})
    records = {record.seq: record for record in queries.list_by_seq(seqs)}
    parsed = {seq: _parse(record.data) for seq, record in records.items()}
    return [_make_row(head, records, parsed) for head in heads]


def _make_row(
    head: candidates_queries.CandidateHead,
    records: Mapping[int, records_queries.NumberedRecord],
    parsed: Mapping[int, Mapping[str, Any]],
) -> CandidateRow:
    own = _get_own_data(parsed.get(head.seq, {}), head.id)
    decided = parsed.get(head.decided, {}) if head.decided is not None else {}
    meta, result = own.get("meta") or {}, own.get("evaluation") or {}
    decision = _get_own_data(decided, head.id).get("decision") or (None, "", None, None)
    failure, record = result.get("failure"), records.get(head.seq)
    cost: Sequence[Any] = decided.get("cost") or ()
    return CandidateRow(
        **{name: getattr(head, name) for name in ("id", "step", "island", "score", "verdict", "version", "is_draft")},
        parents=[text_limits.replace_invalid(str(parent)) for parent in own.get("parents") or ()],
        mutator=_get_line(meta.get("operator") or meta.get("engine")),
        model=_get_line(meta.get("model")),
        change=_get_line(meta.get("idea") or meta.get("change") or meta.get("edit")),
        failed=head.score is None and (head.verdict is not None or failure is not None),
        why=_get_line(failure or (decision[1] if head.verdict != "accept" else "")),
        warning="" if head.score is None else _find_warning(result.get("artifacts") or {}),
        cost_usd=cost[3] if len(cost) > 3 else None,
        num_llm_calls=cost[4] if len(cost) > 4 else None,
        at=None if record is None else record.at,
    )


def _parse(text: str) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError):  # written by another version
        data: Mapping[str, Any] = json_codec.dict_reader.read(text)
        return data
    return {}


def _get_own_data(data: Mapping[str, Any], id: str) -> Mapping[str, Any]:
    """Returns the data of a candidate: the record itself, or its entry among the children of its iteration."""
    if data.get("id") == id:
        return data
    return next((child for child in data.get("children") or () if child.get("id") == id), {})


def _get_line(value: object) -> str:
    return "" if not value else text_format.format_one_line(str(value), MAX_LINE)


def _find_warning(artifacts: Mapping[str, Any]) -> str:
    """Returns the first line of an error output, such as stderr; empty if there is none."""
    for name, reference in artifacts.items():
        if ERROR_NAME.search(str(name)) and isinstance(reference, list | tuple) and len(reference) > 2:
            line = text_format.get_first_line(str(reference[2]))
            if line and reference[1]:
                return _get_line(line)
    return ""


def _compare_with_parents(run_store: store.Store, run: str, row: store.Row) -> list[text_limits.Difference]:
    """Returns the diffs to the parents; the parent that was edited comes first."""
    rows = run_store.candidates(run)
    parents = [parent_row for id in dict.fromkeys(row.parents[:MAX_PARENTS]) if (parent_row := rows.find(id))]
    diffs = [text_limits.compare_texts(parent.id, parent.content, row.content) for parent in parents]
    edited = find_edited_parent(row, parents, [diff.diff for diff in diffs])
    return sorted(diffs, key=lambda diff: diff.parent != edited)


def find_edited_parent(row: store.Row, parents: Sequence[store.Row], diffs: Sequence[str]) -> str | None:
    """Returns the parent whose text was edited: the one whose score the mutator noted, else the most similar.

    Of equally similar parents it is the last, since mutators edit the best and put it last.
    """
    noted = row.meta.get("from_score")
    matching = [parent.id for parent in parents if noted is not None and parent.score == noted]
    if len(matching) == 1:
        return matching[0]
    sizes = [(-sum(line[:1] in "+-" for line in diff.splitlines()), index) for index, diff in enumerate(diffs)]
    return parents[max(sizes)[1]].id if sizes else None


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
    return _get_own_data(queries.load_data(records[0]) if records else {}, head.id)


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
        messages=[
            Message(role=text_limits.limit_text(str(role), 40), text=text_limits.truncate(text))
            for role, text in split_stored_prompt(data)[:MAX_MESSAGES]
        ],
        reply=text_limits.truncate(str(data.get("text") or "")),
        seconds=usage[0],
        tokens_in=usage[1],
        tokens_out=usage[2],
        cost_usd=usage[3],
    )


def _make_text_response(text: str, name: str, size: int) -> Response:
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{text_limits.quote_name(name)}",
        "x-size": str(size),
    }
    return PlainTextResponse(text_limits.replace_invalid(text), headers=headers)
