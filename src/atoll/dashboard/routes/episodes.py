"""Episodes of survival runs: the current one, finished ones, and their statistics."""

import functools
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from atoll import config, errors, runs, store
from atoll.dashboard import dependencies, text_limits
from atoll.dashboard.dependencies import After, CacheDep, Limit, RunId, StoreDep
from atoll.dashboard.routes.events import RunQuery
from atoll.runs import live_channel
from atoll.store.records.queries import RecordQueries

router = APIRouter(prefix="/api/runs/{run}/life", tags=["life"])

MAX_LISTED_EPISODES = 500  # newest episodes in the overview
NUM_RELIABILITY_EPISODES = 60  # newest episodes in the reliability diagram
NUM_CURVE_EPISODES = 6  # newest saved episodes in the exploration curve
MAX_TEXT = 8000


def get_episode_reader(run_store: store.Store, run: str) -> Any:
    """Returns the module that reads the episodes of a run.

    Raises:
        SetupError: The system of the run has no episodes.
    """
    system = run_store.get_run(run).config.get("system", "")
    episode_reader = config.get_episode_reader(system)
    if episode_reader is None:
        raise errors.SetupError(f"Run {run} has no episodes, since its system is {system or 'unknown'}.")
    return episode_reader


@router.get("")
def show_episodes(run_store: StoreDep, run: RunId, cache: CacheDep) -> dict[str, Any]:
    """Returns the newest episodes of a run, the reliability of forecasts, and the current settings."""
    episode_reader, is_live = get_episode_reader(run_store, run), run_store.has_writer(run)
    summary = cache.get(
        ("episodes", run), run_store.candidates(run).count(), lambda: _summarize(run_store, run, episode_reader)
    )
    current_episode = live_channel.find_shown_step(run_store, run) if is_live else None
    return {
        "run": run,
        "is_live": is_live,
        "under_way": current_episode,
        "settings": get_current_settings(run_store, run),
        **summary,
    }


def _summarize(run_store: store.Store, run: str, episode_reader: Any) -> dict[str, Any]:
    episodes = deque(episode_reader.iter_finished_episodes(run_store, run), maxlen=MAX_LISTED_EPISODES)
    newest_ids = [episode.episode for episode in episodes][-NUM_RELIABILITY_EPISODES:]
    curve_episodes = [episode for episode in episodes if episode.snapshots is not None][-NUM_CURVE_EPISODES:]
    curve_turns = [
        turn for episode in curve_episodes for turn in episode_reader.load_turns(run_store, run, episode.episode)
    ]
    rows = [
        {
            "episode": episode.episode,
            "score": episode.score,
            **episode.metrics,
            "how": episode.feedback,
            "has_turns": episode.snapshots is not None,
        }
        for episode in episodes
    ]
    summaries = list(episode_reader.iter_summaries(run_store, run, newest_ids))
    return {
        "lives": text_limits.to_json_data(rows, MAX_TEXT),
        "reliability": text_limits.to_json_data(episode_reader.measure_forecasts(summaries)),
        "curve": text_limits.to_json_data(episode_reader.compute_exploration_curve(curve_turns)),
    }


def get_current_settings(run_store: store.Store, run: str) -> dict[str, Any]:
    """Returns the live settings of a run with their current values."""
    survival_config = run_store.get_run(run).config.get("survival", {})
    return {
        name: survival_config.get(name) for name in get_episode_reader(run_store, run).LIVE_SETTINGS
    } | get_live_settings(run_store, run)


def get_live_settings(run_store: store.Store, run: str) -> dict[str, Any]:
    """Returns the settings changed since the start. The journal records them later, at the end of the episode."""
    episode_reader = config.get_episode_reader(run_store.get_run(run).config.get("system", ""))
    if episode_reader is None:
        return {}
    changes = [command.data for command in run_store.inbox(run).read(0) if command.kind == "set"]
    return {name: value for data in changes for name, value in data.items() if name in episode_reader.LIVE_SETTINGS}


@router.get("/turns/{episode}")
def list_turns(
    run_store: StoreDep,
    run: RunId,
    episode: Annotated[int, Field(ge=1, le=2**53)],
    after: Annotated[int, Query(ge=0, le=2**53, description="`next` of the previous page.")] = 0,
    limit: Limit = 500,
) -> dict[str, Any]:
    """Returns the turns of the current episode, or of a finished and saved one, in order.

    The current episode is visible if an LLM plans or turns have a delay. Others take less than a second; POST `watch`
    makes them visible.
    """
    episode_reader = get_episode_reader(run_store, run)
    finished = episode_reader.get_episode(run_store, run, episode)
    if finished is None or finished.snapshots is None:
        parts = (
            live_channel.list_shown_parts(run_store, run, episode, after)
            if live_channel.find_shown_step(run_store, run) == episode
            else []
        )
        if not parts and finished is not None:
            raise errors.NotFound(_describe_missing(episode))
        page = parts[:limit]
        page_turns: Sequence[Any] = [episode_reader.parse_turn(text) for _, text in page]
        next_position = page[-1][0] if page else after
    else:
        page_turns = list(_load_turns(run_store, run, episode)[after : after + limit])
        next_position = after + len(page_turns)
    return {
        "run": run,
        "episode": episode,
        "is_over": finished is not None,
        "is_kept": finished is not None and finished.snapshots is not None,
        "next": next_position,
        "has_more": len(page_turns) == limit,
        "turns": text_limits.to_json_data(page_turns, MAX_TEXT),
    }


@functools.lru_cache(maxsize=4)
def _load_turns(run_store: store.Store, run: str, episode: int) -> Sequence[Any]:
    """Reads the turns of a finished episode, which never change."""
    loaded_turns: Sequence[Any] = get_episode_reader(run_store, run).load_turns(run_store, run, episode)
    return loaded_turns


@router.post("/watch")
def watch(run_store: StoreDep, run: RunId) -> dict[str, Any]:
    """Makes the run publish all its turns for the next 30 seconds."""
    get_episode_reader(run_store, run)
    live_channel.mark_watched(run_store, run)
    return {"run": run, "under_way": live_channel.find_shown_step(run_store, run)}


def _describe_missing(episode: int) -> str:
    return (
        f"The turns of episode {episode} are not saved. Runs save episodes 1 to 3 and each power of two. Use "
        "'atoll run --save-run DIR' to save all; this page opens such files."
    )


MAX_SCANNED_EPISODES = 5000  # newest episodes to read

snapshots_router = APIRouter(tags=["life"])


class Snapshots(BaseModel):
    """Turns in order. `next` continues after them, also when new turns appear; null if the run has no episodes."""

    run: str
    snapshots: list[dict[str, Any]]
    is_live: bool
    has_more: bool
    next: str | None


@snapshots_router.get("/snapshots")
def list_snapshots(
    run_store: StoreDep, cache: CacheDep, run: RunQuery = "latest", limit: Limit = 100, after: After = None
) -> Snapshots:
    """Returns the turns of the saved episodes and of the current one, in pages."""
    run_id = runs.find_run(run_store, run)
    episode_reader = config.get_episode_reader(run_store.get_run(run_id).config.get("system", ""))
    is_live = run_store.has_writer(run_id)
    if episode_reader is None:
        return Snapshots(run=run_id, snapshots=[], is_live=is_live, has_more=False, next=None)
    episode, turn = dependencies.parse_cursor(after, int, int) if after else (0, 0)
    turns: list[dict[str, Any]] = []
    end = RecordQueries(run_store, run_id).get_end()
    finished = cache.get(
        ("saved episodes", run_id), end, lambda: _list_saved_episodes(run_store, run_id, episode_reader)
    )
    current_episode = live_channel.find_shown_step(run_store, run_id)
    unfinished = [current_episode] if current_episode is not None and current_episode not in finished else []
    for episode_id in (item for item in sorted([*finished, *unfinished]) if item >= episode):
        episode_turns = _read_turns(run_store, run_id, episode_reader, episode_id, is_finished=episode_id in finished)
        first = turn if episode_id == episode else 0
        page = episode_turns[first : first + limit - len(turns)]
        turns += [text_limits.to_json_data({"episode": episode_id, **snapshot}, MAX_TEXT) for snapshot in page]
        if page:
            episode, turn = episode_id, first + len(page)
        if len(turns) >= limit:
            break
    return Snapshots(
        run=run_id,
        snapshots=turns,
        is_live=is_live,
        has_more=len(turns) >= limit,
        next=dependencies.make_cursor(episode, turn),
    )


def _list_saved_episodes(run_store: store.Store, run: str, episode_reader: Any) -> list[int]:
    """Returns the numbers of the finished episodes with saved turns."""
    episodes = deque(episode_reader.iter_finished_episodes(run_store, run), maxlen=MAX_SCANNED_EPISODES)
    return [episode.episode for episode in episodes if episode.snapshots is not None]


def _read_turns(
    run_store: store.Store, run: str, episode_reader: Any, episode: int, *, is_finished: bool
) -> Sequence[Any]:
    if is_finished:
        return _load_saved_turns(run_store, run, episode_reader, episode)
    return [episode_reader.parse_turn(text) for _, text in live_channel.list_shown_parts(run_store, run, episode)]


@functools.lru_cache(maxsize=16)
def _load_saved_turns(run_store: store.Store, run: str, episode_reader: Any, episode: int) -> tuple[Any, ...]:
    """Reads the turns of a finished episode, which never change."""
    return tuple(episode_reader.load_turns(run_store, run, episode))
