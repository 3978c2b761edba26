"""The candidates of a run: in lists, and one of them with all that is known about it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from atoll import errors, store
from atoll.dashboard import paging, plain, texts
from atoll.dashboard.given import MAX_TEXT, After, Kept, Limit, RunId
from atoll.evaluation import BlobRef
from atoll.runs import looks, progress
from atoll.store import census, events

MAX_PARENTS = 10  # with a difference to each
MAX_SCORES = 5000
MAX_ARTIFACTS = 200
MAX_CALLS = 50
MAX_HEAD = 400  # characters of an artifact
MAX_BODY = 4 << 20  # bytes of an artifact or a source that are sent at once

router = APIRouter(prefix="/api/runs/{run}", tags=["candidates"])

CandidateId = Annotated[str, Path(max_length=MAX_TEXT, description="An id such as 12.0, a version, `best` or `start`.")]
Offset = Annotated[int, Query(ge=0, le=1 << 40, description="Where to begin.")]


class CandidateRow(BaseModel):
    """A candidate in a list. `verdict` is null until its step was applied, and of a draft."""

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
    """A named body; `text` is how it begins."""

    name: str
    size: int
    head: str
    url: str


class Call(BaseModel):
    """What a model was asked in the step of a candidate, and what it said."""

    call: str
    model: str
    prompt: texts.Text
    reply: texts.Text
    seconds: float
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Candidate(CandidateRow):
    """All that is known about a candidate. `shown` is its content as people read it, where its system knows better."""

    parents: list[str]
    content: texts.Text
    shown: texts.Text | None
    diffs: list[texts.Difference]
    scores: list[float]
    num_scores: int
    metrics: dict[str, float]
    feedback: texts.Text
    failure: texts.Text | None
    meta: dict[str, Any]
    artifacts: list[Artifact]
    reason: texts.Text | None
    by: str | None
    calls: list[Call]
    num_calls: int


@router.get("/candidates")
def list_candidates(
    kept: Kept,
    run: RunId,
    sort: Literal["newest", "oldest", "best", "worst"] = "newest",
    island: Annotated[int | None, Query(ge=-1, le=1 << 31)] = None,
    failed: Annotated[bool | None, Query(description="Only those without a score, or only those with one.")] = None,
    drafts: Annotated[bool | None, Query(description="Only drafts, or none of them.")] = None,
    verdict: Annotated[Literal["accept", "hold", "reject"] | None, Query()] = None,
    min_score: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    id: Annotated[str, Query(max_length=MAX_TEXT, description="An id, a step or a version.")] = "",
    limit: Limit = 100,
    after: After = None,
) -> CandidatePage:
    """Lists candidates by step or by score, filtered."""
    kinds: tuple[type | tuple[type, ...], ...] = (int, bool, int)
    kinds = ((int, float), *kinds) if sort in ("best", "worst") else kinds
    place = paging.place(after, *kinds) if after else None
    wanted = census.Filter(island, failed, drafts, verdict, min_score, id)
    found = census.Census(kept, run).page(wanted, sort, place, limit)
    end = paging.cursor(*census.key_of(found[-1], sort)) if len(found) == limit else None
    return CandidatePage(candidates=[_row(each) for each in found], next=end)


@router.get("/candidates/{id}")
def show_candidate(kept: Kept, run: RunId, id: CandidateId) -> Candidate:
    """Shows one candidate with its source, its differences to its parents, and how it came about."""
    row = progress.candidate(kept, run, id)
    head = census.Census(kept, run).find([row.id])[row.id]
    record = events.Events(kept, run)
    calls = _calls(record, head)
    shown = looks.shown(looks.system_of(kept, run), row.content)
    return Candidate(
        **_row(head).model_dump(),
        parents=list(map(texts.sound, row.parents)),
        content=texts.cut(row.content),
        shown=texts.cut(shown) if shown != row.content else None,
        diffs=_differences(kept, run, row),
        scores=list(row.scores[:MAX_SCORES]),
        num_scores=len(row.scores),
        metrics=plain.data(row.metrics),
        feedback=texts.cut(row.feedback),
        failure=texts.cut(row.failure) if row.failure is not None else None,
        meta=plain.data(row.meta),
        artifacts=_artifacts(record, head, run),
        reason=texts.cut(row.reason) if row.reason is not None else None,
        by=None if row.by is None else plain.text(row.by),
        calls=calls[:MAX_CALLS],
        num_calls=len(calls),
    )


@router.get("/candidates/{id}/source", response_class=PlainTextResponse)
def source(kept: Kept, run: RunId, id: CandidateId, offset: Offset = 0) -> Response:
    """Returns the source as plain text, from an offset in characters on; `X-Size` is the length of the whole."""
    content = progress.candidate(kept, run, id).content
    return _text(content[offset : offset + MAX_BODY], f"{id}.txt", len(content))


@router.get("/candidates/{id}/artifacts/{name}", response_class=PlainTextResponse)
def artifact(
    kept: Kept, run: RunId, id: CandidateId, name: Annotated[str, Path(max_length=MAX_TEXT)], offset: Offset = 0
) -> Response:
    """Returns an artifact as plain text to be saved, whatever it is; `X-Size` is the length of the whole, in bytes."""
    row = progress.candidate(kept, run, id)
    head = census.Census(kept, run).find([row.id])[row.id]
    named = {texts.sound(each): ref for each, ref in _refs(events.Events(kept, run), head).items()}
    found = named.get(name)
    if found is None:
        raise errors.NotFound(f"Candidate {row.id} has no artifact {name}.")
    body = kept.blobs().body(found)
    return _text(body[offset : offset + MAX_BODY].decode("utf-8", "replace"), name, len(body))


def _row(head: census.Head) -> CandidateRow:
    return CandidateRow(
        id=head.id,
        step=head.step,
        island=head.island,
        score=head.score,
        verdict=head.verdict,
        version=head.version,
        is_draft=head.is_draft,
    )


def _differences(kept: store.Store, run: str, row: store.Row) -> list[texts.Difference]:
    rows = kept.candidates(run)
    parents = [found for id in dict.fromkeys(row.parents[:MAX_PARENTS]) if (found := rows.find(id))]
    return [texts.difference(parent.id, parent.content, row.content) for parent in parents]


def _refs(record: events.Events, head: census.Head) -> Mapping[str, BlobRef]:
    data = _data(record, head)
    found = (data.get("evaluation") or {}).get("artifacts") or {}
    return {name: BlobRef(*ref) for name, ref in found.items()}


def _artifacts(record: events.Events, head: census.Head, run: str) -> list[Artifact]:
    found = list(_refs(record, head).items())[:MAX_ARTIFACTS]
    base = f"/api/runs/{run}/candidates/{head.id}/artifacts"
    return [
        Artifact(
            name=texts.sound(name),
            size=ref.size,
            head=texts.sound(ref.head[:MAX_HEAD]),
            url=f"{base}/{texts.quoted(name)}",
        )
        for name, ref in found
    ]


def _data(record: events.Events, head: census.Head) -> Mapping[str, Any]:
    """Returns the data that hold a candidate: those of its judgement, or its place among the children of its step."""
    found = record.at([head.seq])
    data = record.whole(found[0]) if found else {}
    if data.get("id") == head.id:
        return data
    return next((each for each in data.get("children", ()) if each.get("id") == head.id), {})


def _calls(record: events.Events, head: census.Head) -> list[Call]:
    if head.step == 0:
        return []
    return [_call(record.whole(each)) for each in record.of_step(head.step, "replied", head.seq)]


def _call(data: Mapping[str, Any]) -> Call:
    usage: Sequence[Any] = data.get("usage") or (0.0, 0, 0, 0.0, 0)
    return Call(
        call=plain.text(str(data.get("call", ""))),
        model=plain.text(str(data.get("model") or ""), 300),
        prompt=texts.cut(str(data.get("prompt") or "")),
        reply=texts.cut(str(data.get("text") or "")),
        seconds=usage[0],
        tokens_in=usage[1],
        tokens_out=usage[2],
        cost_usd=usage[3],
    )


def _text(text: str, name: str, size: int) -> Response:
    """Returns foreign text so that no browser takes it for anything else."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{texts.quoted(name)}", "x-size": str(size)}
    return PlainTextResponse(texts.sound(text), headers=headers)
