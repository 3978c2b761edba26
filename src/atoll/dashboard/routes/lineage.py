"""The family tree of a run: as many nodes as a screen bears, and the line to the best."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from atoll.dashboard import paging, texts
from atoll.dashboard.given import MAX_TEXT, After, Kept, RunId
from atoll.runs import progress
from atoll.store import census, decoding

MAX_NODES = 10_000
MAX_PATH = 1000
MAX_KNOWN = 20_000

router = APIRouter(prefix="/api/runs/{run}", tags=["candidates"])


class Nodes(BaseModel):
    """Candidates as lists of one length, in the order of their steps. `parents` are ids, also of nodes not here."""

    ids: list[str]
    parents: list[list[str]]
    scores: list[float | None]
    islands: list[int]
    steps: list[int]
    verdicts: list[str | None]


class Lineage(BaseModel):
    """A window of the tree, from step `first` to step `last` of `total_steps`.

    `path` is the line from the best candidate back to the start, over the best parent each time; it may leave the
    window.
    """

    nodes: Nodes
    path: Nodes
    first: int
    last: int
    total_steps: int
    total_candidates: int
    next: str | None


class Ancestor(NamedTuple):
    """A candidate with its parents and the best of them with its record; none of that ever changes."""

    head: census.Head
    parents: list[str]
    best: tuple[census.Head, str] | None


class _Born(msgspec.Struct):
    id: str = ""
    parents: list[str] = []
    children: list["_Born"] = []


_born = decoding.Reader(_Born)


@router.get("/lineage")
def lineage(
    request: Request,
    kept: Kept,
    run: RunId,
    limit: Annotated[int, Query(ge=1, le=MAX_NODES, description="How many nodes at most.")] = 2000,
    first: Annotated[int | None, Query(ge=0, le=1 << 40, description="From which step; default: the newest.")] = None,
    drafts: Annotated[bool, Query(description="Drafts too.")] = False,
    to: Annotated[str, Query(max_length=MAX_TEXT, description="Whose line; default: the best's.")] = progress.BEST,
    after: After = None,
) -> Lineage:
    """Returns candidates with their parents, and the line to the best or to another one."""
    rows = census.Census(kept, run)
    last_step, total = rows.last_step(), rows.count()
    start = paging.place(after, int)[0] if after else first
    wanted = census.Filter(is_draft=None if drafts else False)
    if start is None:
        found = list(reversed(rows.page(wanted, "newest", None, limit)))
    else:
        found = list(rows.page(wanted, "oldest", (start - 1, True, 2**31), limit))
    steps = [head.step for head in found]
    is_more = len(found) == limit and bool(steps) and steps[-1] < last_step
    # A step that did not fit whole is shown again on the next page.
    following = (steps[-1] if steps[-1] > steps[0] else steps[-1] + 1) if is_more else None
    return Lineage(
        nodes=_nodes(found, parents_of(rows, found)),
        path=_path(kept, rows, run, to, _known(request, run)),
        first=steps[0] if steps else 0,
        last=steps[-1] if steps else 0,
        total_steps=last_step,
        total_candidates=total,
        next=paging.cursor(following) if following is not None else None,
    )


def _nodes(heads: Sequence[census.Head], parents: Mapping[str, list[str]]) -> Nodes:
    return Nodes(
        ids=[head.id for head in heads],
        parents=[list(map(texts.sound, parents.get(head.id, []))) for head in heads],
        scores=[head.score for head in heads],
        islands=[head.island for head in heads],
        steps=[head.step for head in heads],
        verdicts=[head.verdict for head in heads],
    )


def parents_of(rows: census.Census, heads: Sequence[census.Head]) -> dict[str, list[str]]:
    """Returns the parents of candidates, read from the records that hold them."""
    found: dict[str, list[str]] = {}
    for text in rows.contents(heads).values():
        found |= _parents(text)
    return found


def _parents(text: str) -> dict[str, list[str]]:
    born = _born.read(text)
    return {each.id: list(dict.fromkeys(each.parents)) for each in (*born.children, born) if each.id}


def _known(request: Request, run: str) -> dict[str, Ancestor]:
    """Returns the ancestors of a run that were looked up already; a long line is walked once."""
    found: dict[str, dict[str, Ancestor]] = request.app.state.ancestors
    if sum(map(len, found.values())) > MAX_KNOWN:
        found.clear()
    return found.setdefault(run, {})


def _path(kept: Kept, rows: census.Census, run: str, to: str, known: dict[str, Ancestor]) -> Nodes:
    """Returns the line from a candidate to the start; empty where nothing has a score yet."""
    best = rows.best() if to == progress.BEST else []
    first = progress.candidate(kept, run, to).id if to != progress.BEST else best[0].id if best else None
    found = rows.born([first]) if first else {}
    path: list[Ancestor] = []
    seen: set[str] = set()
    here = next(iter(found.values()), None)
    while here is not None and here[0].id not in seen and len(path) < MAX_PATH:
        head, text = here
        seen.add(head.id)
        if head.id in known:
            path.append(known[head.id])
        else:
            names = _parents(text).get(head.id, [])
            path.append(Ancestor(head, names, _best(rows, names)))
            known[head.id] = path[-1]
        here = path[-1].best
    return _nodes([each.head for each in path], {each.head.id: each.parents for each in path})


def _best(rows: census.Census, names: Sequence[str]) -> tuple[census.Head, str] | None:
    """Returns the best of some parents; of equal ones the last, as engines put the best last."""
    if not names:
        return None
    aliases = {name: head.id for name, head in rows.find([name for name in names if "@" in name]).items()}
    ids = [aliases.get(name, name) for name in names]
    found = rows.born(ids)
    return max(
        (found[id] for id in reversed(ids) if id in found), key=lambda each: progress.score_of(each[0]), default=None
    )
