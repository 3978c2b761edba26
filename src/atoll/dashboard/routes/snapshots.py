"""The turns of lives, one after the other: what a survival run has lived through, and lives through now."""

import functools
from collections import deque
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from atoll import config, runs, store
from atoll.dashboard import paging, plain
from atoll.dashboard.given import After, Kept, Limit
from atoll.dashboard.routes.events import RunQuery
from atoll.runs import contact

MAX_TEXT = 8000
MAX_LIVES = 5000  # the newest, that are looked through for their turns

router = APIRouter(tags=["life"])


class Snapshots(BaseModel):
    """Turns in their order. `next` goes on behind them, also once more were lived; null where a run has no lives."""

    run: str
    snapshots: list[dict[str, Any]]
    is_live: bool
    has_more: bool
    next: str | None


@router.get("/snapshots")
def snapshots(kept: Kept, run: RunQuery = "latest", limit: Limit = 100, after: After = None) -> Snapshots:
    """Shows the turns of the lives that were kept, and of the one under way; `after` goes on where a page ended."""
    found = runs.find(kept, run)
    reader = config.lives(kept.run(found).config.get("system", ""))
    is_live = kept.holder(found) is not None
    if reader is None:
        return Snapshots(run=found, snapshots=[], is_live=is_live, has_more=False, next=None)
    episode, turn = paging.place(after, int, int) if after else (0, 0)
    turns: list[dict[str, Any]] = []
    for number in _episodes(kept, found, reader, episode):
        lived = _turns(kept, found, reader, number)
        first = turn if number == episode else 0
        chosen = lived[first : first + limit - len(turns)]
        turns += [plain.data({"episode": number, **each}, MAX_TEXT) for each in chosen]
        if chosen:
            episode, turn = number, first + len(chosen)
        if len(turns) >= limit:
            break
    return Snapshots(
        run=found, snapshots=turns, is_live=is_live, has_more=len(turns) >= limit, next=paging.cursor(episode, turn)
    )


def _episodes(kept: store.Store, run: str, reader: Any, first: int) -> list[int]:
    """Returns the numbers of the lives whose turns can be seen, from one on."""
    told = deque((each for each in reader.lived(kept, run)), maxlen=MAX_LIVES)
    numbers = [each.episode for each in told if each.snapshots is not None and each.episode >= first]
    shown = contact.shown(kept, run)
    return sorted({*numbers, *([shown] if shown is not None and shown >= first else [])})


def _turns(kept: store.Store, run: str, reader: Any, episode: int) -> list[Any]:
    if contact.shown(kept, run) == episode:
        return [reader.read_turn(text) for _, text in contact.parts(kept, run, episode)]
    return list(_kept_turns(kept, run, reader, episode))


@functools.lru_cache(maxsize=16)
def _kept_turns(kept: store.Store, run: str, reader: Any, episode: int) -> tuple[Any, ...]:
    """Reads the turns of a life that is over; they never change."""
    return tuple(reader.turns(kept, run, episode))
