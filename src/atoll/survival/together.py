"""Several lives in one world: with one head between them, or each for themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from atoll import playbook
from atoll.survival.life import Life, Living
from atoll.survival.mind import Mind
from atoll.survival.plan import ActionPlan, Brief, Executed, Reflection
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.table import Table

type Party = Literal["cooperation", "competition"]


@dataclass(slots=True)
class OneStep:
    """Takes only the first action of every plan: the others have their turn."""

    thinker: Thinker

    def plan(self, mind: Mind, brief: Brief) -> ActionPlan:
        plan = self.thinker.plan(mind, brief)
        return replace(plan, actions=plan.actions[:1])

    def reflect(self, mind: Mind, report: str, steps: Sequence[Executed]) -> Reflection:
        return self.thinker.reflect(mind, report, steps)


def live_together(
    living: Living,
    table: Table,
    party: Party,
    book: playbook.Playbook,
    state: Mapping[str, Any],
    *,
    seed: int,
    episode: int = 0,
) -> list[Life]:
    """Lives as many lives as there are seats, turn by turn.

    In co-operation they share what they believe and one playbook: what hurts one is feared by all. In competition
    everybody begins with the same playbook and keeps their own.
    """
    table.lay(seed)
    births = [living.birth(seat, book, state, seed=seed * 31 + number) for number, seat in enumerate(table.seats)]
    for born in births:
        born.roles.thinker = OneStep(born.roles.thinker)
        if party == "cooperation":
            born.mind.lore, born.mind.shelf = births[0].mind.lore, births[0].mind.shelf
    begun = [living.begin(born, seat.reset(seed), episode) for born, seat in zip(births, table.seats, strict=True)]
    for number, lived in enumerate(begun):
        lived.loop.agent = number
    while not table.is_over:
        table.begin_round()
        first = table.terrain.tick % len(begun)
        for lived in begun[first:] + begun[:first]:  # nobody is always first at the bush
            if not lived.loop.seen.is_over:
                lived.turn()
        table.pass_time()  # where nobody did anything
    return [lived.end() for lived in begun]


def summed(lives: Sequence[Life]) -> Life:
    """Returns the life that stands for all: the longest one's playbook and state, the means of what was counted."""
    best = max(lives, key=lambda life: life.ticks)
    return replace(
        best,
        score=fmean(life.score for life in lives),
        ticks=round(fmean(life.ticks for life in lives)),
        reward=fmean(life.reward for life in lives),
        coverage=fmean(life.coverage for life in lives),
        bits=fmean(life.bits for life in lives),
        damage=fmean(life.damage for life in lives),
        encounters=sum(life.encounters for life in lives),
        avoided=sum(life.avoided for life in lives),
        said=tuple(said for life in lives for said in life.said),
        policy_changes=max(life.policy_changes for life in lives),
    )
