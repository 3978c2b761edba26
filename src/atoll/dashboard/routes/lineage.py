"""Lineage of a run: candidates with their parents, and the path to the best."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from atoll.dashboard import dependencies, text_limits
from atoll.dashboard.dependencies import MAX_TEXT, After, RunId, StoreDep
from atoll.runs import progress
from atoll.store import candidate_queries as candidates_queries
from atoll.store.records import json_codec

MAX_NODES = 10_000
MAX_PATH = 1000
MAX_CACHED_ANCESTORS = 20_000

router = APIRouter(prefix="/api/runs/{run}", tags=["candidates"])


class Nodes(BaseModel):
    """Candidates as lists of the same length, by iteration. `parents` may name candidates outside the page."""

    ids: list[str]
    parents: list[list[str]]
    scores: list[float | None]
    islands: list[int]
    steps: list[int]
    verdicts: list[str | None]


class Lineage(BaseModel):
    """A part of the tree, from iteration `first` to `last` of `total_steps`.

    `path` goes from the best candidate back to the initial one, always to the best parent. It may leave the window.
    """

    nodes: Nodes
    path: Nodes
    first: int
    last: int
    total_steps: int
    total_candidates: int
    next: str | None


class Ancestor(NamedTuple):
    """A candidate with its parents, and its best parent with its record. This never changes."""

    head: candidates_queries.CandidateHead
    parents: list[str]
    best: tuple[candidates_queries.CandidateHead, str] | None


class _CandidateRecord(msgspec.Struct):
    id: str = ""
    parents: list[str] = []
    children: list["_CandidateRecord"] = []


_record_reader = json_codec.JSONReader(_CandidateRecord)


@router.get("/lineage")
def show_lineage(
    request: Request,
    run_store: StoreDep,
    run: RunId,
    limit: Annotated[int, Query(ge=1, le=MAX_NODES, description="Maximum number of nodes.")] = 2000,
    first: Annotated[
        int | None, Query(ge=0, le=1 << 40, description="First iteration; default: the newest candidates.")
    ] = None,
    drafts: Annotated[bool, Query(description="Include trials.")] = False,
    to: Annotated[
        str, Query(max_length=MAX_TEXT, description="End of the path; default: the best candidate.")
    ] = progress.BEST,
    after: After = None,
) -> Lineage:
    """Returns candidates with their parents, and the path to the best or another candidate."""
    queries = candidates_queries.CandidateQueries(run_store, run)
    last_step, total = queries.get_last_step(), queries.count()
    first_step = dependencies.parse_cursor(after, int)[0] if after else first
    row_filter = candidates_queries.CandidateFilter(is_draft=None if drafts else False)
    if first_step is None:
        heads = list(reversed(queries.list_page(row_filter, "newest", None, limit)))
    else:
        heads = list(queries.list_page(row_filter, "oldest", (first_step - 1, True, 2**31), limit))
    steps = [head.step for head in heads]
    has_more = len(heads) == limit and bool(steps) and steps[-1] < last_step
    # An iteration that did not fit completely is repeated on the next page.
    next_step = (steps[-1] if steps[-1] > steps[0] else steps[-1] + 1) if has_more else None
    return Lineage(
        nodes=_make_nodes(heads, load_parents(queries, heads)),
        path=_trace_path(run_store, queries, run, to, _get_cached_ancestors(request, run)),
        first=steps[0] if steps else 0,
        last=steps[-1] if steps else 0,
        total_steps=last_step,
        total_candidates=total,
        next=dependencies.make_cursor(next_step) if next_step is not None else None,
    )


def _make_nodes(heads: Sequence[candidates_queries.CandidateHead], parents: Mapping[str, list[str]]) -> Nodes:
    return Nodes(
        ids=[head.id for head in heads],
        parents=[list(map(text_limits.replace_invalid, parents.get(head.id, []))) for head in heads],
        scores=[head.score for head in heads],
        islands=[head.island for head in heads],
        steps=[head.step for head in heads],
        verdicts=[head.verdict for head in heads],
    )


def load_parents(
    queries: candidates_queries.CandidateQueries, heads: Sequence[candidates_queries.CandidateHead]
) -> dict[str, list[str]]:
    """Reads the parents of candidates from their records."""
    parents: dict[str, list[str]] = {}
    for text in queries.load_contents(heads).values():
        parents |= _parse_parents(text)
    return parents


def _parse_parents(text: str) -> dict[str, list[str]]:
    record = _record_reader.read(text)
    return {
        candidate.id: list(dict.fromkeys(candidate.parents)) for candidate in (*record.children, record) if candidate.id
    }


def _get_cached_ancestors(request: Request, run: str) -> dict[str, Ancestor]:
    """Returns the known ancestors of a run, so that a long path is read once."""
    ancestors_by_run: dict[str, dict[str, Ancestor]] = request.app.state.ancestors
    if sum(map(len, ancestors_by_run.values())) > MAX_CACHED_ANCESTORS:
        ancestors_by_run.clear()
    return ancestors_by_run.setdefault(run, {})


def _trace_path(
    run_store: StoreDep, queries: candidates_queries.CandidateQueries, run: str, to: str, ancestors: dict[str, Ancestor]
) -> Nodes:
    """Returns the path from a candidate to the initial one; empty if no candidate has a score."""
    best = queries.list_best() if to == progress.BEST else []
    start_id = progress.find_candidate(run_store, run, to).id if to != progress.BEST else best[0].id if best else None
    records = queries.find_with_records([start_id]) if start_id else {}
    path: list[Ancestor] = []
    visited: set[str] = set()
    current = next(iter(records.values()), None)
    while current is not None and current[0].id not in visited and len(path) < MAX_PATH:
        head, text = current
        visited.add(head.id)
        if head.id in ancestors:
            path.append(ancestors[head.id])
        else:
            parent_ids = _parse_parents(text).get(head.id, [])
            path.append(Ancestor(head, parent_ids, _find_best_parent(queries, parent_ids)))
            ancestors[head.id] = path[-1]
        current = path[-1].best
    return _make_nodes([ancestor.head for ancestor in path], {ancestor.head.id: ancestor.parents for ancestor in path})


def _find_best_parent(
    queries: candidates_queries.CandidateQueries, parent_ids: Sequence[str]
) -> tuple[candidates_queries.CandidateHead, str] | None:
    """Returns the best parent; of equal ones the last, since mutators put the best last."""
    if not parent_ids:
        return None
    aliases = {name: head.id for name, head in queries.find([name for name in parent_ids if "@" in name]).items()}
    ids = [aliases.get(name, name) for name in parent_ids]
    records = queries.find_with_records(ids)
    return max(
        (records[id] for id in reversed(ids) if id in records),
        key=lambda record: progress.get_sort_score(record[0]),
        default=None,
    )
