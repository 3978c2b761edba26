"""The turns of lives, one after the other: what a survival run has lived through, and lives through now."""

import functools
from collections import deque
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from atoll import config, runs, store
from atoll.dashboard import paging, plain
from atoll.dashboard.given import After, StoreDep, Limit, CacheDep
from atoll.dashboard.routes.events import RunQuery
from atoll.runs import contact
from atoll.store.events import RecordQueries

MAX_TEXT = 8000
MAX_SCANNED_EPISODES = 5000  # the newest, that are looked through for their turns

router = APIRouter(tags=["life"])


class Snapshots(BaseModel):
    """Turns in their order. `next` goes on behind them, also once more were lived; null where a run has no lives."""

    run: str
    snapshots: list[dict[str, Any]]
    is_live: bool
    has_more: bool
    next: str | None


@router.get("/snapshots")
def list_snapshots(
    run_store: StoreDep, cache: CacheDep, run: RunQuery = "latest", limit: Limit = 100, after: After = None
) -> Snapshots:
    """Shows the turns of the lives that were kept, and of the one under way; `after` goes on where a page ended."""
    run_id = runs.find_run(run_store, run)
    episode_reader = config.get_episode_reader(run_store.get_run(run_id).config.get("system", ""))
    is_live = run_store.has_writer(run_id)
    if episode_reader is None:
        return Snapshots(run=run_id, snapshots=[], is_live=is_live, has_more=False, next=None)
    episode, turn = paging.parse_cursor(after, int, int) if after else (0, 0)
    turns: list[dict[str, Any]] = []
    end = RecordQueries(run_store, run_id).get_end()
    finished = cache.get(("kept lives", run_id), end, lambda: _list_saved_episodes(run_store, run_id, episode_reader))
    current_episode = contact.find_shown_step(run_store, run_id)
    unfinished = [current_episode] if current_episode is not None and current_episode not in finished else []
    for episode_id in (item for item in sorted([*finished, *unfinished]) if item >= episode):
        episode_turns = _read_turns(run_store, run_id, episode_reader, episode_id, is_finished=episode_id in finished)
        first = turn if episode_id == episode else 0
        page = episode_turns[first : first + limit - len(turns)]
        turns += [plain.to_json_data({"episode": episode_id, **snapshot}, MAX_TEXT) for snapshot in page]
        if page:
            episode, turn = episode_id, first + len(page)
        if len(turns) >= limit:
            break
    return Snapshots(
        run=run_id, snapshots=turns, is_live=is_live, has_more=len(turns) >= limit, next=paging.make_cursor(episode, turn)
    )


def _list_saved_episodes(run_store: store.Store, run: str, episode_reader: Any) -> list[int]:
    """Returns the numbers of the lives that are over and whose turns are kept."""
    episodes = deque(episode_reader.iter_finished_episodes(run_store, run), maxlen=MAX_SCANNED_EPISODES)
    return [episode.episode for episode in episodes if episode.snapshots is not None]


def _read_turns(run_store: store.Store, run: str, episode_reader: Any, episode: int, *, is_finished: bool) -> Sequence[Any]:
    if is_finished:
        return _load_saved_turns(run_store, run, episode_reader, episode)
    return [episode_reader.parse_turn(text) for _, text in contact.list_shown_parts(run_store, run, episode)]


@functools.lru_cache(maxsize=16)
def _load_saved_turns(run_store: store.Store, run: str, episode_reader: Any, episode: int) -> tuple[Any, ...]:
    """Reads the turns of a life that is over; they never change."""
    return tuple(episode_reader.load_turns(run_store, run, episode))
