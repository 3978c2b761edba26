"""A kernel step is one life: the head of the playbook is lived by, observed, and followed by what it became."""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from atoll import evaluation, function, gate, playbook, system
from atoll.candidate import JSON
from atoll.evaluation import BlobRef, Evaluation
from atoll.survival.life import Life, Living
from atoll.survival.plan import LoopSnapshot
from atoll.survival.reins import SETTINGS, Ruled
from atoll.survival.roles.presenter import Presenter

# How to live, with which playbook and state, the world's seed, the number of the life.
type Live = Callable[[Living, playbook.Playbook, Mapping[str, Any], int, int], Life]

SNAPSHOTS = "snapshots.jsonl.z"  # the turns of a life, a JSON line each, deflated
FIRST_KEPT = 3  # lives whose turns are kept; later ones at powers of two: a long run keeps few


class Episodes:
    """Lives one life per step, as a function of its task.

    Args:
        live: Lives a life, or several at once.
        living: How lives are lived.
        bodies: Where turns and what goes on between lives are kept.
        presenter: Hears of every turn.
        seed: Of the run: worlds come from it and the number of the step.
    """

    def __init__(self, live: Live, living: Living, bodies: system.Bodies, presenter: Presenter, seed: int) -> None:
        self._live, self._living, self._bodies = live, living, bodies
        self._presenter, self._seed = presenter, seed
        self._number = 0  # of turns that were shown to people outside

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        (head,) = task.parents
        book = playbook.Playbook.load(str(head.skeleton()))
        turns: list[LoopSnapshot] = []
        is_kept = _is_kept(task.step)
        living = self._living_now(task.step, task.advice, turns if is_kept else None)
        life = self._live(living, book, self._state(task.advice), world_seed(self._seed, task.step), task.step)
        summary = life.summary()
        self._presenter.end(summary)
        kept = {SNAPSHOTS: self._bodies.hold(_packed(turns))} if turns else {}
        task.observe(head, observed(life, kept))
        ref = self._bodies.hold(json.dumps(life.state, sort_keys=True).encode())
        text = function.Text(written(life))
        return [function.draft(head, text, life=summary, state=[ref.sha256, ref.size, ref.head])]

    def _living_now(self, step: int, advice: Mapping[str, JSON], turns: list[LoopSnapshot] | None) -> Living:
        """Returns how this life is lived: settings that came from outside count, and kept turns are told in full."""
        living, ruled = self._living, Ruled(advice)
        temper, telling = ruled.temper(living.temper), ruled.telling(living.telling)
        reins = replace(living.reins, advice={name: advice[name] for name in SETTINGS if name in advice})

        def show(snapshot: LoopSnapshot) -> None:
            if turns is not None:
                turns.append(snapshot)
            self._presenter.show(snapshot)
            there = reins.contact()
            if there is not None and (living.is_told or reins.is_shown(reins.wishes())):
                self._number += 1  # several may live at once: a turn's own number would not do
                there.show(step, self._number, json.dumps(snapshot.to_data(), ensure_ascii=False))

        is_told = living.is_told or turns is not None or self._presenter.is_watched
        return replace(living, temper=temper, telling=telling, show=show, reins=reins, is_told=is_told)

    def _state(self, advice: Mapping[str, Any]) -> Mapping[str, Any]:
        if "state" not in advice:
            return {}
        found: Mapping[str, Any] = json.loads(self._bodies.body(BlobRef(*advice["state"])))
        return found


def written(life: Life) -> str:
    """Returns the playbook that a life left, with what it was worth, as JSON that `Playbook.load` reads too."""
    lived: dict[str, JSON] = {"episode": life.episode, "score": life.score, "ticks": life.ticks, "cause": life.cause}
    data = {**life.book.to_data(), "counts": dict(life.counts), "lived": lived}
    return json.dumps(data, separators=(",", ":"), sort_keys=True)


def world_seed(seed: int, step: int) -> int:
    """Returns the seed of a life's world: the same for every setting of a run with this seed."""
    return Random(f"{seed}/world/{step}").getrandbits(31)


def observed(life: Life, artifacts: Mapping[str, BlobRef]) -> Evaluation:
    """Returns a life as the judgement of the playbook that it was lived by."""
    metrics = {"ticks": float(life.ticks), "reward": life.reward, "coverage": life.coverage, "bits": life.bits}
    metrics |= {"damage": life.damage, "episode": float(life.episode)}
    end = f"died of {life.cause}" if life.cause else "lived on"
    feedback = f"{end} after {life.ticks} ticks, reward {life.reward:.2f}, coverage {life.coverage:.0%}"
    return Evaluation(life.score, metrics=metrics, feedback=feedback, artifacts=artifacts)


def judge(curator: playbook.Curator) -> function.Judge:
    """Returns the judge of what can be told before a playbook is lived by: its form, its length, and what the life
    was worth that it comes from. `task.observe` replaces that by the life that was lived by it.
    """

    def check(skeleton: function.AnySkeleton) -> Evaluation:
        book = playbook.Playbook.load(str(skeleton))
        tokens = book.num_tokens(curator.count_tokens)
        if tokens > curator.config.max_tokens:
            return evaluation.failed(f"it has {tokens} tokens and may have {curator.config.max_tokens}")
        lived = json.loads(str(skeleton)).get("lived") or {"score": 0.0}
        metrics = {"bullets": float(len(book)), "tokens": float(tokens)}
        return Evaluation(float(lived["score"]), metrics=metrics, feedback="nobody has lived by it yet")

    return check


def curate(proposal: gate.Proposal) -> gate.Decision:
    """Lets a playbook in whose every change was curated during the life; one that says the same stays out."""
    now = json.loads(proposal.candidate.content)["bullets"]
    if any(json.loads(candidate.content)["bullets"] == now for candidate in proposal.kin):
        return gate.Decision("reject", "nothing was learnt", "curator")
    life: Any = proposal.candidate.meta.get("life", {})
    changes = life.get("policy_changes", 0)
    end = f"died of {life.get('cause')}" if life.get("cause") else "lived on"
    return gate.Decision("accept", f"life {life.get('episode')} {end}: {changes} changes", "curator")


class Experience:
    """Carries what is no playbook from life to life: logs, notes, what fear has learnt; and the lives themselves."""

    def __init__(self) -> None:
        self.lives: list[Mapping[str, Any]] = []
        self._state: JSON = None

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {"state": self._state} if self._state is not None else {}

    def learn(self, outcome: function.Outcome) -> None:
        for fn, _ in outcome.children:
            if fn.candidate is not None and "life" in fn.candidate.meta:
                life: Any = fn.candidate.meta["life"]
                self.lives.append(life)
                self._state = fn.candidate.meta["state"]


def _is_kept(episode: int) -> bool:
    return episode <= FIRST_KEPT or episode & (episode - 1) == 0


def _packed(turns: Sequence[LoopSnapshot]) -> bytes:
    lines = "\n".join(json.dumps(each.to_data(), ensure_ascii=False) for each in turns)
    return zlib.compress(lines.encode(), 6)


def unpacked(body: bytes) -> list[dict[str, Any]]:
    """Reads back the turns of a life as they are kept."""
    return [json.loads(line) for line in zlib.decompress(body).decode().splitlines()]
