"""Population of the policy `leader`: its settings by budget, programs by lineage, parents and inspirations."""

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from statistics import median
from typing import Literal, NamedTuple, Protocol
from weakref import WeakValueDictionary

from atoll import archipelago, errors, function, gate
from atoll.programs.learners import MAX_ERROR_CHARS
from atoll.programs.population.population import compute_distance


class PolicySettings(NamedTuple):
    """Settings of the policy for a budget.

    Attributes:
        explore_start: Share of challenges while the best score rises.
        explore_end: Share of challenges in lasting stagnation.
        num_challengers: Challengers at the same time.
        num_inspirations: Programs in a prompt beside the best one.
        num_islands: Number of islands.
        opening: Share of the budget that goes to samples first.
        has_samples: Whether later calls may be samples as well, and prompts may leave out the history of the run.
    """

    explore_start: float
    explore_end: float
    num_challengers: int
    num_inspirations: int
    num_islands: int
    opening: float = 0.0
    has_samples: bool = False


def choose_settings(num_calls: int | None) -> PolicySettings:
    """Returns the settings for a budget in LLM calls; None: unlimited."""
    if num_calls is None:
        return PolicySettings(0.2, 0.5, 2, 2, 1)
    if num_calls < 50:
        return PolicySettings(0.1, 0.4, 1, 1, 1)
    if num_calls < 500:
        return PolicySettings(0.2, 0.5, 1 if num_calls < 250 else 2, 2, 1, 0.08, True)
    return PolicySettings(0.25, 0.6, 3, 3, 2 if num_calls < 2000 else 4, 0.04, True)


def choose_window(num_calls: int | None) -> int | None:
    """Returns the most iterations in flight, so that 12 generations fit into the budget; None: any number."""
    return None if num_calls is None else max(1, num_calls // 12)


type Mode = Literal["fix", "refine", "sample", "spread", "challenge", "new", "notes"]

OPERATOR_KEY = "operator"  # in the advice, and in the meta of every child
_MAX_TRIES = 5  # of a challenger since its best score rose
_FIRST_TRIES = 2  # of a new best program, before any other parent
_SPREAD_SIZE = 20  # programs of the leader that `spread` draws from
_SCRATCH_SHARE = 0.3  # of `new` programs that do not see the best one
_MAX_FAILURES = 4  # failed programs that may be repaired
_MAX_RETIRED = 8  # lineages without tries left that may still inspire

_NUMBER = re.compile(r"(?<![\w.])(?:\d[\w.]*|\.\d\w*)(?:[eE][-+]?\d+)?")


class Policy(Protocol):
    """State of the run that a population asks for its choices."""

    settings: PolicySettings

    def find_error(self, fn: function.Function) -> str:
        """Returns the error that the evaluation of a program reports; empty if there is none."""

    def is_large_rise(self, old: function.Function, new: function.Function) -> bool:
        """Returns whether a new best counts as progress."""

    def count_fruitless(self, id: str) -> int:
        """Returns the number of children of a program that did not beat it."""

    def compute_shares(self) -> tuple[float, float]:
        """Returns the shares of the modes challenge and spread."""

    @property
    def is_opening(self) -> bool:
        """Phase in which the run only samples."""

    def draw_sample(self, rng: Random) -> bool:
        """Returns whether the next program is a sample: a change of the initial program without the history."""

    def draw_plain(self, rng: Random) -> bool:
        """Returns whether the next prompt on the best program leaves out the history."""

    @property
    def fix_share(self) -> float:
        """Share of iterations that repair failed programs."""

    def starts_notes(self) -> bool:
        """Returns whether the next iteration asks the LLM for notes on the run."""

    def note_initial(self, fn: function.Function) -> None:
        """Keeps the first program of an island; that of the first island is the initial program of the run."""

    def note_selection(self, mode: Mode, parent: function.Function, *, is_scratch: bool, is_plain: bool) -> None:
        """Keeps a selection for the advice of the same iteration."""


@dataclass(slots=True)
class _Lineage:
    """A root program and its descendants."""

    root: str
    members: list[function.Function] = field(default_factory=list)  # best first
    tries: int = 0  # since its best score rose

    @property
    def best(self) -> function.Function:
        return self.members[0]


class LeaderPopulation:
    """Programs of one island, by lineage."""

    def __init__(self, policy: Policy, rng: Random) -> None:
        self._policy, self._rng = policy, rng
        self._lineages: dict[str, _Lineage] = {}  # the most recently improved last
        self._roots: dict[str, str] = {}  # root of each candidate
        self._by_id = WeakValueDictionary[str, function.Function]()
        self._best: function.Function | None = None
        self._initial: function.Function | None = None
        self._tries = 0  # iterations since the best score rose, without samples
        self._failures = deque[function.Function](maxlen=_MAX_FAILURES)  # not repaired yet

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Adds a program. A program whose evaluation reports an error is rejected, except for the initial one."""
        if fn.score() is None:
            return decision
        if self._best is not None and (error := self._policy.find_error(fn)):
            return gate.Decision("reject", f"it failed: {error[:MAX_ERROR_CHARS]}", "population")
        id, root = get_id(fn), self._find_root(fn)
        lineage = self._lineages.pop(root, None) or _Lineage(root)
        has_risen = not lineage.members or function.get_fitness(fn) > function.get_fitness(lineage.best)
        lineage.members = sorted([member for member in lineage.members if get_id(member) != id] + [fn], key=get_order)
        lineage.members = lineage.members[::-1]
        initial = [
            member for member in lineage.members[_SPREAD_SIZE:] if member is self._initial
        ]  # may be a parent again
        lineage.members = lineage.members[:_SPREAD_SIZE] + initial
        lineage.tries = 0 if has_risen else lineage.tries
        self._lineages[root], self._roots[id], self._by_id[id] = lineage, root, fn
        if self._initial is None:
            self._initial = fn
            self._policy.note_initial(fn)
        if self._best is None:
            self._best = fn
        elif self._replaces_best(fn):
            is_rise = self._policy.is_large_rise(self._best, fn)
            self._best, self._tries = fn, -1 if is_rise else self._tries  # its own iteration counts next
        self._drop_retired()
        return decision

    def _replaces_best(self, fn: function.Function) -> bool:
        best = self._best
        if best is None or (best is self._initial and self._policy.find_error(best)):
            return True
        return get_order(fn) > get_order(best)

    def _find_root(self, fn: function.Function) -> str:
        candidate = fn.candidate
        if candidate is None or candidate.meta.get(OPERATOR_KEY) == "new":
            return get_id(fn)
        known = (self._roots[parent] for parent in candidate.parents if parent in self._roots)
        return self._roots.get(candidate.id) or next(known, candidate.id)

    def _drop_retired(self) -> None:
        retired = [root for root, lineage in self._lineages.items() if lineage.tries >= _MAX_TRIES]
        for root in [root for root in retired if self._lineages[root].best is not self._best][:-_MAX_RETIRED]:
            if self._lineages[root].best is not self._initial:
                del self._lineages[root]

    def note_failure(self, fn: function.Function, parent: function.Function) -> None:
        """Keeps a failed program, so that one iteration may repair it."""
        id = get_id(fn)
        self._failures.append(fn)
        self._by_id[id], self._roots[id] = fn, self._roots.get(get_id(parent), id)

    def drop_failure(self, id: str) -> None:
        """Forgets a failed program after an attempt to repair it."""
        self._failures = deque((fn for fn in self._failures if get_id(fn) != id), maxlen=_MAX_FAILURES)

    def count_try(self, parent: function.Function, *, is_new: bool) -> None:
        """Counts an applied iteration for the lineage of its parent, unless a better parent came up meanwhile."""
        self._tries += 1
        lineage = self._lineages.get(self._roots.get(get_id(parent), ""))
        if lineage is not None and not is_new and get_id(lineage.best) == get_id(parent):
            lineage.tries += 1

    def select(self) -> archipelago.Selection:
        """Returns one parent, and the programs that the prompt shows beside it."""
        best = self.best_fn()
        if self._policy.starts_notes():
            self._policy.note_selection("notes", best, is_scratch=False, is_plain=True)
            return archipelago.Selection((best,), {})
        mode, parent, is_scratch = self._choose_parent(best)
        is_plain = mode == "sample" or (mode == "refine" and self._policy.draw_plain(self._rng))
        self._policy.note_selection(mode, parent, is_scratch=is_scratch, is_plain=is_plain)
        inspirations = {} if is_scratch or is_plain else self._choose_inspirations(parent)
        return archipelago.Selection((parent,), inspirations)

    def _choose_parent(self, best: function.Function) -> tuple[Mode, function.Function, bool]:
        """Returns the mode, the parent, and whether a new program is written without seeing the best one."""
        if self._policy.find_error(best):
            return "fix", best, False
        if self._policy.is_opening and self._initial is not None:
            return "sample", self._initial, False
        if self._failures and self._rng.random() < self._policy.fix_share:
            return "fix", self._rng.choice(self._failures), False
        if self._tries < _FIRST_TRIES:
            return "refine", best, False
        if self._initial is not None and self._policy.draw_sample(self._rng):
            return "sample", self._initial, False
        explore, spread = self._policy.compute_shares()
        draw = self._rng.random()
        if draw < explore:
            return self._choose_challenger(best)
        leader = self._lineages[self._roots[get_id(best)]].members
        if draw < explore + spread and len(leader) > 1:
            return "spread", self._draw_spread(leader[:_SPREAD_SIZE]), False
        return "refine", best, False

    def _choose_challenger(self, best: function.Function) -> tuple[Mode, function.Function, bool]:
        leader = self._roots[get_id(best)]
        active = [lineage for root, lineage in self._lineages.items() if root != leader and self._is_active(lineage)]
        if len(active) >= self._policy.settings.num_challengers:
            return "challenge", max((lineage.best for lineage in active), key=get_order), False
        if active and self._rng.random() < 0.5:  # one that the best challenger would leave without tries
            least_tried = min(active, key=lambda lineage: (lineage.tries, get_order(lineage.best)))
            return "challenge", least_tried.best, False
        is_scratch = self._rng.random() < _SCRATCH_SHARE and self._initial is not None
        return "new", self._initial if is_scratch and self._initial is not None else best, is_scratch

    def _is_active(self, lineage: _Lineage) -> bool:
        """Returns whether a challenger gets another try. One that only equals the best is a variation of it."""
        is_equal = function.get_fitness(lineage.best) == function.get_fitness(self.best_fn())
        return lineage.tries < _MAX_TRIES and not is_equal and lineage.best is not self._initial

    def _draw_spread(self, members: Sequence[function.Function]) -> function.Function:
        """Draws a program by its score, less often if its children brought no gain."""
        scores = [function.get_fitness(fn) for fn in members]
        middle = median(scores)
        deviation = median(abs(score - middle) for score in scores)
        scale = max(deviation, 0.01 * (scores[0] - middle), 1e-12)
        exponents = [min(50.0, max(-50.0, 3 * (score - middle) / scale)) for score in scores]
        counts = [self._policy.count_fruitless(get_id(fn)) for fn in members]
        weights = [1 / (1 + math.exp(-value)) / (1 + count) for value, count in zip(exponents, counts, strict=True)]
        return self._rng.choices(members, weights)[0]

    def _choose_inspirations(self, parent: function.Function) -> Mapping[str, Sequence[function.Function]]:
        """Returns the best program, the best of the most different lineage, and the next better of the same one."""
        best, count = self.best_fn(), self._policy.settings.num_inspirations
        roles: dict[str, Sequence[function.Function]] = {}
        root, initial_score = self._roots.get(get_id(parent)), self._get_initial_score()
        others = [
            lineage.best
            for key, lineage in self._lineages.items()
            if key != root and lineage.best is not best and function.get_fitness(lineage.best) > initial_score
        ]
        lines = _get_lines(parent)
        different = sorted(others, key=lambda fn: compute_distance(lines, _get_lines(fn)))[::-1][:1]
        same = self._lineages[root].members if root in self._lineages else []
        min_score = max(initial_score, function.get_fitness(parent))
        better = [fn for fn in same if fn is not best and function.get_fitness(fn) > min_score]
        best_score = function.get_fitness(best)  # an equal one is mostly the same program in other words
        worse = [fn for fn in same if initial_score < function.get_fitness(fn) < best_score and fn is not parent]
        known = {_get_structure(parent), _get_structure(best)}
        extra = {_get_structure(fn): fn for fn in (*worse[:1], *better[-1:], *different)}
        if chosen := [fn for structure, fn in reversed(extra.items()) if structure not in known][:count]:
            roles["other"] = tuple(chosen)
        if get_id(best) != get_id(parent):
            roles["best"] = (best,)
        return roles

    def _get_initial_score(self) -> float:
        initial = self._initial
        return -math.inf if initial is None or self._policy.find_error(initial) else function.get_fitness(initial)

    def best_fn(self) -> function.Function:
        if self._best is None:
            raise errors.NotFound("The population is empty.")
        return self._best

    def get(self, id: str) -> function.Function:
        fn = self._by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"Candidate {id} is not in the population.")
        return fn

    def update_evaluation(self, fn: function.Function) -> None:
        """Replaces a member; one that failed later is removed unless it is the last."""
        id = get_id(fn)
        lineage = self._lineages.get(self._roots.get(id, ""))
        position = next((i for i, fn in enumerate(lineage.members) if get_id(fn) == id), None) if lineage else None
        if lineage is None or position is None:
            raise errors.NotFound(f"Candidate {id} is not in the population.")
        num_members = sum(len(other.members) for other in self._lineages.values())
        if fn.score() is not None:
            lineage.members[position] = self._by_id[id] = fn
        elif num_members > 1:
            del lineage.members[position]
        lineage.members.sort(key=get_order, reverse=True)
        if not lineage.members:
            del self._lineages[lineage.root]
        if self._initial is not None and get_id(self._initial) == id and fn.score() is not None:
            self._initial = fn
        self._best = max((other.best for other in self._lineages.values()), key=get_order)


def get_id(fn: function.Function) -> str:
    """Returns the id of the candidate; empty if it has none."""
    return fn.candidate.id if fn.candidate else ""


def get_order(fn: function.Function) -> tuple[float, int]:
    """Returns the sort key: by score, then the shorter program; for equals the older one stays ahead."""
    return (function.get_fitness(fn), -len(str(fn.skeleton())))


def _get_structure(fn: function.Function) -> str:
    """Returns a program without its numbers: programs that differ only in constants have the same structure."""
    return _remove_numbers(str(fn.skeleton()))


@lru_cache(maxsize=256)  # each selection compares the same good programs
def _remove_numbers(text: str) -> str:
    return _NUMBER.sub("0", " ".join(text.split()))


def _get_lines(fn: function.Function) -> frozenset[str]:
    return _split_lines(str(fn.skeleton()))


@lru_cache(maxsize=256)
def _split_lines(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.splitlines())))
