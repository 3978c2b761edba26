"""Playbooks: bullets, versions, deltas, rollbacks and decisions on held deltas."""

import json
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import config, errors, playbook, store
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import Limit, StoreDep
from atoll.playbook import serialization
from atoll.store.versions import change as versions_change

router = APIRouter(prefix="/api/playbooks", tags=["playbook"])

PREFIX = "playbook/"
COUNTS = ("applied", "held", "rejected", "retired")
MAX_BULLETS, MAX_DELTAS = 2000, 2000
KeyQuery = Annotated[str, Query(min_length=1, max_length=512, description="Key of the playbook.")]
Key = Annotated[str, Field(min_length=1, max_length=512)]


class RollbackRequest(text_limits.AuthorAndReason):
    """Restores an old version as a new one."""

    key: Key
    version: Annotated[int, Field(ge=1, le=2**53)]


class DeltaDecision(text_limits.AuthorAndReason):
    """A decision on a held delta."""

    key: Key
    id: Annotated[str, Field(min_length=4, max_length=64)]
    apply: bool


class BulletEdit(text_limits.AuthorAndReason):
    """A new text for a bullet; an empty one proposes to remove it."""

    key: Key
    id: Annotated[str, Field(min_length=1, max_length=120)]
    content: Annotated[str, Field(max_length=4000)]


def open_playbook(run_store: store.Store, key: str) -> playbook.PlaybookStore:
    """Opens a playbook with the limits of its run.

    Raises:
        NotFound: The key is not a playbook.
    """
    if not key.startswith(PREFIX) or key not in run_store.versions().list(key):
        raise errors.NotFound(f"Playbook {key!r:.100} not found.")
    return playbook.PlaybookStore(run_store.versions(), key=key, curator=playbook.Curator(_load_limits(run_store, key)))


def _load_limits(run_store: store.Store, key: str) -> playbook.Config:
    with suppress(errors.NotFound, ValueError, KeyError):
        settings = run_store.get_run(key.removeprefix(PREFIX)).config.get("survival", {})
        return playbook.Config(
            max_tokens=settings["playbook_max_tokens"], max_sections=settings["playbook_max_sections"]
        )
    return playbook.Config()


@router.get("")
def list_playbooks(run_store: StoreDep) -> dict[str, Any]:
    """Lists the playbooks of the store by key, each with its run, if any."""
    runs = {run.id for run in run_store.list_runs()}
    keys = run_store.versions().list(PREFIX)
    rows = [
        {"key": key, "run": run_id if (run_id := key.removeprefix(PREFIX)) in runs else None} for key in keys[:1000]
    ]
    return {"playbooks": rows, "total": len(keys)}


@router.get("/current")
def show_playbook(
    run_store: StoreDep, key: KeyQuery, version: Annotated[int | None, Query(ge=1, le=2**53)] = None
) -> dict[str, Any]:
    """Returns a playbook or an old version of it: bullets, size, limits and held deltas."""
    playbook_store = open_playbook(run_store, key)
    content = playbook_store.get_version(version) if version else playbook_store.current()
    bullets = list(content.bullets.values())
    held = [] if version else playbook_store.list_held()
    return {
        "key": key,
        "version": version or playbook_store.version,
        "newest": playbook_store.version,
        "turn": content.turn,
        "stats": content.stats().to_data(),
        "limits": {"tokens": playbook_store.config.max_tokens, "sections": playbook_store.config.max_sections},
        "bullets": [text_limits.to_json_data(_bullet_to_json(bullet), 4000) for bullet in bullets[:MAX_BULLETS]],
        "held": [
            text_limits.to_json_data({**held_delta._asdict(), "delta": held_delta.delta.to_data()}, 4000)
            for held_delta in held
        ],
    }


def _bullet_to_json(bullet: playbook.Bullet) -> dict[str, Any]:
    names = ("id", "section", "content", "helpful", "harmful", "created", "used", "heading", "provenance")
    return {name: getattr(bullet, name) for name in names} | {"is_pinned": bullet.is_pinned}


@router.get("/history")
def list_versions(
    run_store: StoreDep, key: KeyQuery, before: Annotated[int | None, Query(ge=1, le=2**53)] = None, limit: Limit = 50
) -> dict[str, Any]:
    """Lists versions, newest first: applied, held and rejected deltas with reasons, retired bullets, rollbacks."""
    last = open_playbook(run_store, key).version
    first = last if before is None else min(last, before - 1)
    versions = range(first, max(0, first - limit), -1)  # read one by one, since each version is a complete playbook
    rows = [
        text_limits.to_json_data(_change_to_json(change), 4000)
        for version in versions
        if (change := run_store.change_log().get_version(key, version)) is not None
    ]
    return {"key": key, "versions": rows, "next": rows[-1]["version"] if rows and versions[-1] > 1 else None}


def _change_to_json(change: store.ChangeEntry) -> dict[str, Any]:
    common = {"version": change.n, "reason": change.reason, "author": change.author, "at": change.at}
    if change.kind == versions_change.ROLLBACK:
        return {**common, "restored": change.target, "counts": dict.fromkeys(COUNTS, 0), "verdicts": [], "retired": []}
    curation = serialization.parse_version(json.loads(change.value or '"{}"'))
    counts = curation.counts or Counter(str(verdict.outcome) for verdict in curation.verdicts)
    return {
        **common,
        "restored": None,
        "counts": {name: counts.get(name, 0) for name in COUNTS}
        | ({} if curation.counts else {"retired": len(curation.retired)}),
        "verdicts": [verdict.to_data() for verdict in curation.verdicts],
        "retired": [
            {"id": removal.bullet.id, "content": removal.bullet.content, "reason": removal.reason}
            for removal in curation.retired
        ],
    }


@router.get("/deltas")
def list_deltas(run_store: StoreDep, key: KeyQuery, version: Annotated[int, Query(ge=1, le=2**53)]) -> dict[str, Any]:
    """Returns the deltas of the episode that made a version, with turn, outcome and reason.

    Versions from other sources have their deltas in the history. Episodes without saved turns have only counts.
    """
    run, episode = key.removeprefix(PREFIX), _get_episode(open_playbook(run_store, key), version)
    if episode is None:
        raise errors.NotFound(f"Version {version} of {key} has no episode. Its deltas are in the history.")
    turns = config.get_episode_reader(run_store.get_run(run).config.get("system", "")).load_turns(
        run_store, run, episode
    )
    rows = [{"turn": turn["turn"], **verdict} for turn in turns for verdict in turn["deltas"]]
    return {"key": key, "version": version, "life": episode, "total": len(rows)} | {
        "deltas": text_limits.to_json_data(rows[:MAX_DELTAS], 4000)
    }


def _get_episode(playbook_store: playbook.PlaybookStore, version: int) -> int | None:
    """Returns the episode that wrote a version, if any."""
    try:
        episode = (
            json.loads(playbook_store.versions.get(playbook_store.key, version).value).get("lived", {}).get("episode")
        )
    except (ValueError, AttributeError):
        return None
    return episode if isinstance(episode, int) else None


@router.post("/rollback")
def rollback(run_store: StoreDep, body: RollbackRequest) -> dict[str, Any]:
    """Restores an old version as a new one; the history is kept."""
    playbook_store = open_playbook(run_store, body.key)
    if not body.reason.strip() or not body.by.strip():
        raise errors.SetupError("A rollback needs a reason and a name. Pass both.")
    playbook_store.rollback(body.version, body.reason, body.by)
    return {"key": body.key, "version": playbook_store.version, "restored": body.version}


@router.post("/edit")
def edit_bullet(run_store: StoreDep, body: BulletEdit) -> dict[str, Any]:
    """Proposes a new text for a bullet, or its removal. The curator decides, as for every delta."""
    text, reason, author = body.content.strip(), body.reason.strip(), body.by.strip()
    if not reason or not author:
        raise errors.SetupError("An edit needs a reason and a name. Pass both.")
    playbook_store = open_playbook(run_store, body.key)
    delta = playbook.update(body.id, text, evidence=reason) if text else playbook.remove(body.id, evidence=reason)
    change = playbook_store.apply([delta], reason, author)
    (verdict,) = change.verdicts
    return {"key": body.key, "version": change.n, **text_limits.to_json_data(verdict.to_data(), 4000)}


@router.post("/settle")
def decide_delta(run_store: StoreDep, body: DeltaDecision) -> dict[str, Any]:
    """Applies or rejects a held delta; the history records the reason as its evidence."""
    change = open_playbook(run_store, body.key).decide_held(body.id, body.reason, body.by, is_approved=body.apply)
    (verdict,) = change.verdicts
    return {"key": body.key, "version": change.n, **text_limits.to_json_data(verdict.to_data(), 4000)}
