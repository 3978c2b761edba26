"""The turns of lives, one after the other: what a survival run has lived through, and lives through now."""

import functools
from collections import deque
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from atoll import config, runs, store
from atoll.dashboard import paging, plain
from atoll.dashboard.given import After, Kept, Limit, Remembered
from atoll.dashboard.routes.events import RunQuery
from atoll.runs import contact
from atoll.store.events import Events

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
def snapshots(
    kept: Kept, memo: Remembered, run: RunQuery = "latest", limit: Limit = 100, after: After = None
) -> Snapshots:
    """Shows the turns of the lives that were kept, and of the one under way; `after` goes on where a page ended."""
    found = runs.find(kept, run)
    reader = config.lives(kept.run(found).config.get("system", ""))
    is_live = kept.is_written(found)
    if reader is None:
        return Snapshots(run=found, snapshots=[], is_live=is_live, has_more=False, next=None)
    episode, turn = paging.place(after, int, int) if after else (0, 0)
    turns: list[dict[str, Any]] = []
    end = Events(kept, found).end()
    over = memo.get(("kept lives", found), end, lambda: _kept_lives(kept, found, reader))
    shown = contact.shown(kept, found)
    under_way = [shown] if shown is not None and shown not in over else []
    for number in (each for each in sorted([*over, *under_way]) if each >= episode):
        lived = _turns(kept, found, reader, number, is_over=number in over)
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


def _kept_lives(kept: store.Store, run: str, reader: Any) -> list[int]:
    """Returns the numbers of the lives that are over and whose turns are kept."""
    told = deque(reader.lived(kept, run), maxlen=MAX_LIVES)
    return [each.episode for each in told if each.snapshots is not None]


def _turns(kept: store.Store, run: str, reader: Any, episode: int, *, is_over: bool) -> Sequence[Any]:
    if is_over:
        return _kept_turns(kept, run, reader, episode)
    return [reader.read_turn(text) for _, text in contact.parts(kept, run, episode)]


@functools.lru_cache(maxsize=16)
def _kept_turns(kept: store.Store, run: str, reader: Any, episode: int) -> tuple[Any, ...]:
    """Reads the turns of a life that is over; they never change."""
    return tuple(reader.turns(kept, run, episode))
