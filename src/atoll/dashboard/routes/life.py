"""Lives: the one under way turn by turn, those that are over, and what fear and curiosity came to."""

import functools
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import config, errors, store
from atoll.dashboard import plain
from atoll.dashboard.given import Kept, Limit, Remembered, RunId
from atoll.runs import contact

router = APIRouter(prefix="/api/runs/{run}/life", tags=["life"])

SHOWN = 500  # lives that an overview lists, the newest
MEASURED = 60  # lives whose forecasts make the reliability diagram, the newest
DRAWN = 6  # kept lives whose turns make the curve of fear and curiosity, the newest
MAX_TEXT = 8000


def reader(kept: store.Store, run: str) -> Any:
    """Returns what reads the lives of a run.

    Raises:
        SetupError: Its steps are no lives.
    """
    system = kept.run(run).config.get("system", "")
    found = config.lives(system)
    if found is None:
        raise errors.SetupError(f"Run {run} has no lives: its system is {system or 'unknown'}.")
    return found


@router.get("")
def overview(kept: Kept, run: RunId, memo: Remembered) -> dict[str, Any]:
    """Shows the lives of a run: the newest in numbers, how reliable forecasts were, and what is set."""
    lives, is_live = reader(kept, run), kept.is_written(run)
    summed = memo.get(("life", run), kept.candidates(run).count(), lambda: _summed(kept, run, lives))
    under_way = contact.shown(kept, run) if is_live else None
    return {"run": run, "is_live": is_live, "under_way": under_way, "settings": in_force(kept, run), **summed}


def _summed(kept: store.Store, run: str, lives: Any) -> dict[str, Any]:
    told = deque(lives.lived(kept, run), maxlen=SHOWN)
    newest = [each.episode for each in told][-MEASURED:]
    drawn = [each for each in told if each.snapshots is not None][-DRAWN:]
    curves = [turn for each in drawn for turn in lives.turns(kept, run, each.episode)]
    rows = [
        {
            "episode": each.episode,
            "score": each.score,
            **each.metrics,
            "how": each.feedback,
            "has_turns": each.snapshots is not None,
        }
        for each in told
    ]
    summaries = list(lives.summaries(kept, run, newest))
    return {
        "lives": plain.data(rows, MAX_TEXT),
        "reliability": plain.data(lives.reliability(summaries)),
        "curve": plain.data(lives.curve(curves)),
    }


def in_force(kept: store.Store, run: str) -> dict[str, Any]:
    """Returns what can be steered and how it is set: as the run began, and as somebody has changed it since."""
    own = kept.run(run).config.get("survival", {})
    return {name: own.get(name) for name in reader(kept, run).STEERED} | heard(kept, run)


def heard(kept: store.Store, run: str) -> dict[str, Any]:
    """Returns what a run of lives was told since it began; it obeys between turns, and its journal says so later."""
    lives = config.lives(kept.run(run).config.get("system", ""))
    if lives is None:
        return {}
    told = [command.data for command in kept.inbox(run).read(0) if command.kind == "set"]
    return {name: value for data in told for name, value in data.items() if name in lives.STEERED}


@router.get("/turns/{episode}")
def turns(
    kept: Kept,
    run: RunId,
    episode: Annotated[int, Field(ge=1, le=2**53)],
    after: Annotated[int, Query(ge=0, le=2**53, description="The `next` of the page before.")] = 0,
    limit: Limit = 500,
) -> dict[str, Any]:
    """Shows the turns of a life in their order: of one under way, or of one that is over and whose turns were kept.

    A life under way shows itself where a model plans or where there is a delay between turns; other lives take less
    than a second, and are shown while they last only to who says that they watch.
    """
    lives = reader(kept, run)
    over = lives.life(kept, run, episode)
    if over is None or over.snapshots is None:
        shown = contact.parts(kept, run, episode, after) if contact.shown(kept, run) == episode else []
        if not shown and over is not None:
            raise errors.NotFound(_missing(episode))
        page = shown[:limit]
        found: Sequence[Any] = [lives.read_turn(text) for _, text in page]
        place = page[-1][0] if page else after
    else:
        found = list(_turns(kept, run, episode)[after : after + limit])
        place = after + len(found)
    return {
        "run": run,
        "episode": episode,
        "is_over": over is not None,
        "is_kept": over is not None and over.snapshots is not None,
        "next": place,
        "has_more": len(found) == limit,
        "turns": plain.data(found, MAX_TEXT),
    }


@functools.lru_cache(maxsize=4)
def _turns(kept: store.Store, run: str, episode: int) -> Sequence[Any]:
    """Reads the turns of a life that is over, which never change: a page is a part of them."""
    found: Sequence[Any] = reader(kept, run).turns(kept, run, episode)
    return found


@router.post("/watch")
def watch(kept: Kept, run: RunId) -> dict[str, Any]:
    """Says that somebody looks, so that lives without a delay are shown too while they last; holds for 30 seconds."""
    reader(kept, run)
    contact.watch(kept, run)
    return {"run": run, "under_way": contact.shown(kept, run)}


def _missing(episode: int) -> str:
    return (
        f"The turns of life {episode} are not kept: those of the first three lives are, and of each power of two; "
        "'atoll run --save-run DIR' keeps all, and this page opens such files."
    )
