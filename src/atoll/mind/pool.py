"""What an island keeps: its whole population, drawn from by a Boltzmann tournament."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from weakref import WeakValueDictionary

from atoll import archipelago, errors, function, gate
from atoll.mind import judge

type Fns = Sequence[function.Function]


def tournament(ranks: Sequence[float], k: int, rng: Random, temperature: float = 0.03) -> list[int]:
    """Draws k different places by the softmax of their ranks (a Boltzmann tournament), worst first.

    The highest k of rank / temperature + Gumbel noise are exactly draws from the softmax without putting back.
    """
    noisy = [rank / temperature - math.log(-math.log(1.0 - rng.random() * (1 - 1e-12))) for rank in ranks]
    drawn = sorted(range(len(ranks)), key=lambda place: -noisy[place])[:k]
    return sorted(drawn, key=lambda place: ranks[place])


def _rank(fn: function.Function) -> float:
    return max(function.rank_of(fn), -1e9)


@dataclass(frozen=True, slots=True)
class Mating:
    """How parents are drawn.

    Attributes:
        num_parents: At most so many.
        pr_no_parents: How often there are none, and a plan is begun anew; with 1/6 and 5 every number from 0 to 5
            is as likely.
        temperature: Of the softmax, in units of fitness; the paper gives none.
        most: How many members an island keeps; the worst leave.
    """

    num_parents: int = 5
    pr_no_parents: float = 1 / 6
    temperature: float = 0.03
    most: int = 400


@dataclass(eq=False)
class Hall:
    """The best of all islands of one problem, whatever becomes of those islands; and whom a model has chosen of them.

    Attributes:
        most: How many it holds.
        best: The best first, on the scale that all islands share; no text twice.
        chosen: Ids of those that are good and unlike each other, as a model last said.
    """

    most: int
    best: list[function.Function] = field(default_factory=list)
    chosen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()

    def add(self, fn: function.Function) -> None:
        if fn.candidate is not None and (said := fn.candidate.meta.get("chosen")):
            self.chosen = tuple(str(each) for each in said) if isinstance(said, list | tuple) else ()
        text = str(fn.skeleton())
        if any(str(each.skeleton()) == text for each in self.best):
            return
        self.best = sorted([*self.best, fn], key=judge.score_of, reverse=True)[: self.most]
        self.by_id[id_of(fn)] = fn


@dataclass(eq=False)
class Population:
    """One island's worldlines, no text twice; nobody is retired but by a reset, or where there is no room.

    Attributes:
        shown: Whether a step is shown the hall, to choose founders for a reset.
    """

    mating: Mating
    hall: Hall
    rng: Random
    shown: bool = False

    def __post_init__(self) -> None:
        self._members: dict[str, function.Function] = {}
        self._base: function.Function | None = None
        self._by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()

    @property
    def members(self) -> list[function.Function]:
        return list(self._members.values())

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        if fn.score() is None:
            return decision
        if judge.is_base(fn):
            self._base = self._by_id[id_of(fn)] = fn
            return decision
        self.hall.add(fn)
        if self._members.setdefault(str(fn.skeleton()), fn) is fn:
            # A migrant that came home stays out: under its id the one that stands here is found, and lives on.
            self._by_id[id_of(fn)] = fn
        if len(self._members) > self.mating.most:
            worst = min(self._members.items(), key=lambda each: _rank(each[1]))
            del self._members[worst[0]]
        return decision

    def pick(self) -> archipelago.Pick:
        mating, rng = self.mating, self.rng
        number = 0 if rng.random() < mating.pr_no_parents else rng.randint(1, max(1, mating.num_parents))
        members = self.members
        drawn = tournament([_rank(fn) for fn in members], number, rng, mating.temperature)
        parents = [members[place] for place in drawn]
        others: Mapping[str, Fns] = {"elites": tuple(self.hall.best)} if self.shown and self.hall.best else {}
        return archipelago.Pick(tuple(parents), others)

    def best_fn(self) -> function.Function:
        best = max(self._members.values(), key=_rank, default=self._base)
        if best is None:
            raise errors.NotFound("The pool is empty.")
        return best

    def find(self, id: str) -> function.Function:
        fn = self._by_id.get(id) or self.hall.by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"The pool keeps no candidate {id}.")
        return fn

    def observe(self, fn: function.Function) -> None:
        text = str(fn.skeleton())
        if text not in self._members:
            raise errors.NotFound(f"The pool keeps no candidate {id_of(fn)}.")
        self._by_id[id_of(fn)] = fn
        if fn.score() is None:
            del self._members[text]  # what failed late leaves
        else:
            self._members[text] = fn


def id_of(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else f"draft {id(fn)}"


def members_of(island: archipelago.Island) -> list[function.Function]:
    """Returns the worldlines of an island, without the base."""
    return island.pool.members if isinstance(island.pool, Population) else []


def make_pools(mating: Mating, num_islands: int, num_problems: int, candidates: int, *, shown: bool) -> "MakePool":
    """Returns what makes the islands' populations; those of one problem share a hall."""
    halls = [Hall(candidates) for _ in range(num_problems)]
    return lambda island, rng, announce: Population(mating, halls[island // num_islands], rng, shown)


type MakePool = Callable[[int, Random, object], Population]
