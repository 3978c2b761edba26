"""Playbooks: what agents have learnt, how it came about, what waits for somebody, and back."""

import json
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import config, errors, playbook, store
from atoll.dashboard import plain
from atoll.dashboard.given import Kept, Limit
from atoll.playbook import packing
from atoll.store import entry

router = APIRouter(prefix="/api/playbooks", tags=["playbook"])

PREFIX = "playbook/"
COUNTS = ("applied", "held", "rejected", "retired")
MAX_BULLETS, MAX_DELTAS = 2000, 2000
KeyQuery = Annotated[str, Query(min_length=1, max_length=512, description="Which playbook.")]
Key = Annotated[str, Field(min_length=1, max_length=512)]


class Back(plain.Said):
    """Back to an old version, as a new one."""

    key: Key
    version: Annotated[int, Field(ge=1, le=2**53)]


class Settling(plain.Said):
    """What somebody decides about a delta that waits."""

    key: Key
    id: Annotated[str, Field(min_length=4, max_length=64)]
    apply: bool


def opened(kept: store.Store, key: str) -> playbook.Store:
    """Opens a playbook under the limits of the run that it belongs to.

    Raises:
        NotFound: There is none of that name.
    """
    if not key.startswith(PREFIX) or key not in kept.versions().list(key):
        raise errors.NotFound(f"There is no playbook {key!r:.100}.")
    return playbook.Store(kept.versions(), key=key, curator=playbook.Curator(_limits(kept, key)))


def _limits(kept: store.Store, key: str) -> playbook.Config:
    with suppress(errors.NotFound, ValueError, KeyError):
        own = kept.run(key.removeprefix(PREFIX)).config.get("survival", {})
        return playbook.Config(max_tokens=own["playbook_max_tokens"], max_sections=own["playbook_max_sections"])
    return playbook.Config()


@router.get("")
def playbooks(kept: Kept) -> dict[str, Any]:
    """Lists the playbooks of the store by key, with the run that each belongs to, if any."""
    runs = {each.id for each in kept.runs()}
    keys = kept.versions().list(PREFIX)
    rows = [{"key": key, "run": each if (each := key.removeprefix(PREFIX)) in runs else None} for key in keys[:1000]]
    return {"playbooks": rows, "total": len(keys)}


@router.get("/current")
def current(kept: Kept, key: KeyQuery, version: Annotated[int | None, Query(ge=1, le=2**53)] = None) -> dict[str, Any]:
    """Shows a playbook, now or as it was: its bullets by section, its size against its limits, and what waits."""
    notes = opened(kept, key)
    found = notes.at(version) if version else notes.current()
    bullets = list(found.bullets.values())
    waiting = [] if version else notes.waiting()
    return {
        "key": key,
        "version": version or notes.version,
        "newest": notes.version,
        "turn": found.turn,
        "stats": found.stats().to_data(),
        "limits": {"tokens": notes.config.max_tokens, "sections": notes.config.max_sections},
        "bullets": [plain.data(_bullet(each), 4000) for each in bullets[:MAX_BULLETS]],
        "held": [plain.data({**each._asdict(), "delta": each.delta.to_data()}, 4000) for each in waiting],
    }


def _bullet(each: playbook.Bullet) -> dict[str, Any]:
    names = ("id", "section", "content", "helpful", "harmful", "created", "used", "heading", "provenance")
    return {name: getattr(each, name) for name in names} | {"is_pinned": each.is_pinned}


@router.get("/history")
def history(
    kept: Kept, key: KeyQuery, before: Annotated[int | None, Query(ge=1, le=2**53)] = None, limit: Limit = 50
) -> dict[str, Any]:
    """Lists versions, newest first: what was applied, held and rejected and why, what was retired, and rollbacks."""
    last = opened(kept, key).version
    first = last if before is None else min(last, before - 1)
    numbers = range(first, max(0, first - limit), -1)  # by number: a run of lives has many versions, each a whole book
    rows = [plain.data(_event(found), 4000) for n in numbers if (found := kept.book().version(key, n)) is not None]
    return {"key": key, "versions": rows, "next": rows[-1]["version"] if rows and numbers[-1] > 1 else None}


def _event(change: store.Entry) -> dict[str, Any]:
    told = {"version": change.n, "reason": change.reason, "author": change.author, "at": change.at}
    if change.kind == entry.ROLLBACK:
        return {**told, "restored": change.target, "counts": dict.fromkeys(COUNTS, 0), "verdicts": [], "retired": []}
    found = packing.read(json.loads(change.value or '"{}"'))
    counts = found.counts or Counter(str(verdict.outcome) for verdict in found.verdicts)
    return {
        **told,
        "restored": None,
        "counts": {name: counts.get(name, 0) for name in COUNTS}
        | ({} if found.counts else {"retired": len(found.retired)}),
        "verdicts": [verdict.to_data() for verdict in found.verdicts],
        "retired": [
            {"id": gone.bullet.id, "content": gone.bullet.content, "reason": gone.reason} for gone in found.retired
        ],
    }


@router.get("/deltas")
def deltas(kept: Kept, key: KeyQuery, version: Annotated[int, Query(ge=1, le=2**53)]) -> dict[str, Any]:
    """Shows what was proposed in the life that made a version, turn by turn, with every verdict and its reason.

    A version that no life made has its verdicts in the history; of lives whose turns were not kept only the counts are.
    """
    run, told = key.removeprefix(PREFIX), _lived(opened(kept, key), version)
    if told is None:
        raise errors.NotFound(f"Version {version} of {key} comes from no life: its verdicts are in the history.")
    turns = config.lives(kept.run(run).config.get("system", "")).turns(kept, run, told)
    rows = [{"turn": turn["turn"], **verdict} for turn in turns for verdict in turn["deltas"]]
    return {"key": key, "version": version, "life": told, "total": len(rows)} | {
        "deltas": plain.data(rows[:MAX_DELTAS], 4000)
    }


def _lived(notes: playbook.Store, version: int) -> int | None:
    """Returns the number of the life that a version was written in."""
    try:
        found = json.loads(notes.versions.get(notes.key, version).value).get("lived", {}).get("episode")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, int) else None


@router.post("/rollback")
def rollback(kept: Kept, said: Back) -> dict[str, Any]:
    """Makes an old version the newest again; the history keeps everything."""
    notes = opened(kept, said.key)
    if not said.reason.strip() or not said.by.strip():
        raise errors.SetupError("A rollback needs a reason and a name: say why, and who you are.")
    notes.rollback(said.version, said.reason, said.by)
    return {"key": said.key, "version": notes.version, "restored": said.version}


@router.post("/settle")
def settle(kept: Kept, said: Settling) -> dict[str, Any]:
    """Applies or rejects a delta that waits; the reason stands in the history as its evidence."""
    change = opened(kept, said.key).settle(said.id, said.reason, said.by, is_applied=said.apply)
    (verdict,) = change.verdicts
    return {"key": said.key, "version": change.n, **plain.data(verdict.to_data(), 4000)}
