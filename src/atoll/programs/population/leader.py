"""Search policy `leader`: refine the best program, and give a few other approaches a fair number of tries.

A lineage is a root program and all its descendants. A root is the initial program or a program of the operator `new`.
The leader is the lineage of the best program; another lineage is a challenger while it still gets tries.

| mode      | parent                                                         |
|-----------|----------------------------------------------------------------|
| refine    | the best program                                               |
| spread    | one of the best 20 programs of the leader, by score and yield  |
| challenge | the best of a challenger, or a program by another method (new) |

A selection depends on the applied iterations and on random numbers of the iteration, so that a resumed run repeats it.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Literal
from weakref import WeakValueDictionary

from atoll import archipelago, cluster, errors, evaluation, function, gate
from atoll.candidate import JSON
from atoll.programs.population.attempts import MAX_ERROR_CHARS, AttemptMemory
from atoll.programs.population.features import compute_distance
from atoll.programs.population.policy_settings import choose_settings

type Mode = Literal["fix", "refine", "spread", "challenge", "new"]

OPERATOR_KEY, STATE_KEY, NOTES_KEY, SCRATCH_KEY = "operator", "state", "run_notes", "from_scratch"
_MAX_TRIES = 5  # of a challenger since its best score rose
_SPREAD_SIZE = 20  # programs of the leader that `spread` draws from
_SMALL_RISE = 1e-4  # of the whole gain; a smaller rise does not count against stagnation
_SCRATCH_SHARE = 0.3  # of `new` programs that do not see the best one
_SHORT_PROGRAM, _STUB_PROGRAM = 40, 120  # lines; edits of shorter programs, and of stubs, waste calls
_MAX_FAILURES, _FIX_SHARE = 4, 0.25  # failed programs that may be repaired, and the share of iterations for it
_MAX_RETIRED = 8  # lineages without tries left that may still inspire


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

    def __init__(self, search: "LeaderSearch", rng: Random) -> None:
        self._search, self._rng = search, rng
        self._lineages: dict[str, _Lineage] = {}  # the most recently improved last
        self._roots: dict[str, str] = {}  # root of each candidate
        self._by_id = WeakValueDictionary[str, function.Function]()
        self._best: function.Function | None = None
        self._initial: function.Function | None = None
        self._tries = 0  # since the best score rose
        self._failures = deque[function.Function](maxlen=_MAX_FAILURES)  # not repaired yet

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Adds a program. A program whose evaluation reports an error is rejected, except for the initial one."""
        if fn.score() is None:
            return decision
        if self._best is not None and (error := self._search.find_error(fn)):
            return gate.Decision("reject", f"it failed: {error[:MAX_ERROR_CHARS]}", "population")
        id, root = _get_id(fn), self._find_root(fn)
        lineage = self._lineages.pop(root, None) or _Lineage(root)
        has_risen = not lineage.members or _get_order(fn) > _get_order(lineage.best)
        lineage.members = sorted([member for member in lineage.members if _get_id(member) != id] + [fn], key=_get_order)
        lineage.members = lineage.members[::-1][:_SPREAD_SIZE]
        lineage.tries = 0 if has_risen else lineage.tries
        self._lineages[root], self._roots[id], self._by_id[id] = lineage, root, fn
        self._initial = self._initial or fn
        if self._best is None or self._replaces_best(fn):
            self._best, self._tries = fn, 0
        self._drop_retired()
        return decision

    def _replaces_best(self, fn: function.Function) -> bool:
        best = self._best
        if best is None or (best is self._initial and self._search.find_error(best)):
            return True
        return _get_order(fn) > _get_order(best)

    def _find_root(self, fn: function.Function) -> str:
        candidate = fn.candidate
        if candidate is None or candidate.meta.get(OPERATOR_KEY) == "new":
            return _get_id(fn)
        known = (self._roots[parent] for parent in candidate.parents if parent in self._roots)
        return self._roots.get(candidate.id) or next(known, candidate.id)

    def _drop_retired(self) -> None:
        retired = [root for root, lineage in self._lineages.items() if lineage.tries >= _MAX_TRIES]
        for root in [root for root in retired if self._lineages[root].best is not self._best][:-_MAX_RETIRED]:
            if self._lineages[root].best is not self._initial:
                del self._lineages[root]

    def note_failure(self, fn: function.Function, parent: function.Function) -> None:
        """Keeps a failed program, so that one iteration may repair it."""
        id = _get_id(fn)
        self._failures.append(fn)
        self._by_id[id], self._roots[id] = fn, self._roots.get(_get_id(parent), id)

    def drop_failure(self, id: str) -> None:
        """Forgets a failed program after an attempt to repair it."""
        self._failures = deque((fn for fn in self._failures if _get_id(fn) != id), maxlen=_MAX_FAILURES)

    def count_try(self, parent: function.Function, *, is_new: bool) -> None:
        """Counts an applied iteration for the lineage of its parent."""
        self._tries += 1
        lineage = self._lineages.get(self._roots.get(_get_id(parent), ""))
        if lineage is not None and not is_new:
            lineage.tries += 1

    def select(self) -> archipelago.Selection:
        """Returns one parent, and the programs that the prompt shows beside it."""
        best = self.best_fn()
        mode, parent, is_scratch = self._choose_parent(best)
        self._search.note_selection(mode, parent, is_scratch=is_scratch)
        inspirations = {} if is_scratch else self._choose_inspirations(parent)
        return archipelago.Selection((parent,), inspirations)

    def _choose_parent(self, best: function.Function) -> tuple[Mode, function.Function, bool]:
        """Returns the mode, the parent, and whether a new program is written without seeing the best one."""
        if self._search.find_error(best):
            return "fix", best, False
        if self._failures and self._rng.random() < _FIX_SHARE:
            return "fix", self._rng.choice(self._failures), False
        if self._tries < 2:
            return "refine", best, False
        explore, spread = self._search.compute_shares()
        draw = self._rng.random()
        if draw < explore:
            return self._choose_challenger(best)
        leader = self._lineages[self._roots[_get_id(best)]].members
        if draw < explore + spread and len(leader) > 1:
            return "spread", self._draw_spread(leader), False
        return "refine", best, False

    def _choose_challenger(self, best: function.Function) -> tuple[Mode, function.Function, bool]:
        leader = self._roots[_get_id(best)]
        active = [
            lineage
            for root, lineage in self._lineages.items()
            if root != leader and lineage.tries < _MAX_TRIES and lineage.best is not self._initial
        ]
        if len(active) >= self._search.settings.num_challengers:
            return "challenge", min(active, key=lambda lineage: lineage.tries).best, False
        is_scratch = self._rng.random() < _SCRATCH_SHARE and self._initial is not None
        return "new", self._initial if is_scratch and self._initial is not None else best, is_scratch

    def _draw_spread(self, members: Sequence[function.Function]) -> function.Function:
        """Draws a program by its score, less often if its children brought no gain."""
        scores = [function.get_fitness(fn) for fn in members]
        middle = median(scores)
        deviation = median(abs(score - middle) for score in scores)
        scale = max(deviation, 0.01 * (scores[0] - middle), 1e-12)
        exponents = [min(50.0, max(-50.0, 3 * (score - middle) / scale)) for score in scores]
        counts = [self._search.count_fruitless(_get_id(fn)) for fn in members]
        weights = [1 / (1 + math.exp(-value)) / (1 + count) for value, count in zip(exponents, counts, strict=True)]
        return self._rng.choices(members, weights)[0]

    def _choose_inspirations(self, parent: function.Function) -> Mapping[str, Sequence[function.Function]]:
        """Returns the best program, the best of the most different lineage, and the next better of the same one."""
        best, count = self.best_fn(), self._search.settings.num_inspirations
        roles: dict[str, Sequence[function.Function]] = {}
        root, initial_score = self._roots.get(_get_id(parent)), self._get_initial_score()
        others = [
            lineage.best
            for key, lineage in self._lineages.items()
            if key != root and lineage.best is not best and function.get_fitness(lineage.best) > initial_score
        ]
        lines = _get_lines(parent)
        different = sorted(others, key=lambda fn: compute_distance(lines, _get_lines(fn)))[::-1][:1]
        same = self._lineages[root].members if root in self._lineages else []
        better = [fn for fn in same if fn is not best and function.get_fitness(fn) > function.get_fitness(parent)]
        worse = [fn for fn in same if fn is not best and initial_score < function.get_fitness(fn) and fn is not parent]
        extra = [fn for fn in (*different, *better[-1:], *worse[:1]) if _get_id(fn) != _get_id(parent)]
        if extra := list({_get_id(fn): fn for fn in extra}.values())[:count]:
            roles["other"] = tuple(extra)
        if _get_id(best) != _get_id(parent):
            roles["best"] = (best,)
        return roles

    def _get_initial_score(self) -> float:
        initial = self._initial
        return -math.inf if initial is None or self._search.find_error(initial) else function.get_fitness(initial)

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
        id = _get_id(fn)
        lineage = self._lineages.get(self._roots.get(id, ""))
        position = next((i for i, fn in enumerate(lineage.members) if _get_id(fn) == id), None) if lineage else None
        if lineage is None or position is None:
            raise errors.NotFound(f"Candidate {id} is not in the population.")
        num_members = sum(len(other.members) for other in self._lineages.values())
        if fn.score() is not None:
            lineage.members[position] = self._by_id[id] = fn
        elif num_members > 1:
            del lineage.members[position]
        lineage.members.sort(key=_get_order, reverse=True)
        if not lineage.members:
            del self._lineages[lineage.root]
        if self._initial is not None and _get_id(self._initial) == id and fn.score() is not None:
            self._initial = fn
        self._best = max((other.best for other in self._lineages.values()), key=_get_order)


class LeaderSearch:
    """The policy of a run: makes the populations, advises each iteration and learns from it.

    Args:
        num_calls: Budget in LLM calls; None: unlimited.
        find_error: Returns the error that an evaluation reports beside its score; empty if there is none.
        can_diff: Whether edits may be requested; otherwise full programs only.
        engines: Share of iterations of each mutator that needs no LLM, by name.
    """

    def __init__(
        self,
        num_calls: int | None = None,
        *,
        find_error: Callable[[evaluation.Evaluation], str] = lambda result: "",
        can_diff: bool = True,
        engines: Mapping[str, float] | None = None,
    ) -> None:
        self.settings = choose_settings(num_calls)
        self._num_calls, self._can_diff, self._engines = num_calls, can_diff, dict(engines or {})
        self._find_error = find_error
        self._populations: dict[int, LeaderPopulation] = {}
        self._fruitless = Counter[str]()
        self._memory = AttemptMemory()
        self._initial: float | None = None
        self._best: function.Function | None = None
        self._since_rise = self._applied = self._num_gains = self._used_calls = 0
        self._yields: dict[str, tuple[float, float]] = {}  # usable responses and requests of each form
        self._selection: tuple[Mode, function.Function, bool] | None = None

    def make_population(self, island: int, rng: Random, profilers: cluster.ClusterProfilers) -> LeaderPopulation:
        """Makes the population of an island; a `cluster.MakePopulation`."""
        population = self._populations[island] = LeaderPopulation(self, rng)
        return population

    def find_error(self, fn: function.Function) -> str:
        """Returns the error that the evaluation of a program reports; empty if there is none."""
        return self._find_error(fn.evaluation) if fn.evaluation else ""

    def count_fruitless(self, id: str) -> int:
        """Returns the number of children of a program that did not beat it."""
        return self._fruitless[id]

    @property
    def stagnation(self) -> float:
        """Evaluated children since the best score last rose, in units of the patience for this budget."""
        patience = 20 if self._num_calls is None else min(40, max(6, math.ceil(0.08 * self._num_calls)))
        return self._since_rise / patience

    def compute_shares(self) -> tuple[float, float]:
        """Returns the shares of the modes challenge and spread."""
        settings, level = self.settings, min(1.0, self.stagnation / 2)
        explore = settings.explore_start + (settings.explore_end - settings.explore_start) * level
        return max(0.1, explore), 0.1 if self.stagnation < 1 else 0.2

    def note_selection(self, mode: Mode, parent: function.Function, *, is_scratch: bool) -> None:
        """Keeps a selection for the advice of the same iteration."""
        self._selection = (mode, parent, is_scratch)

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns the operator, the form of the response, the state of the run and the earlier attempts."""
        if self._selection is None:
            return {}
        mode, parent, is_scratch = self._selection
        advice: dict[str, JSON] = {OPERATOR_KEY: mode, "mode": self._choose_form(mode, parent, rng)}
        advice |= {"engine": self._choose_engine(mode, rng), STATE_KEY: self._describe_state()}
        advice |= {SCRATCH_KEY: True} if is_scratch else {}
        if attempts := self._memory.choose_attempts(_get_id(parent)):
            advice["attempts"] = attempts
        if notes := self._memory.list_notes():
            advice[NOTES_KEY] = notes
        return advice

    def _choose_engine(self, mode: Mode, rng: Random) -> str:
        if mode in ("refine", "spread"):
            draw = rng.random()
            for name, share in self._engines.items():
                if draw < share:
                    return name
                draw -= share
        return "llm"

    def _choose_form(self, mode: Mode, parent: function.Function, rng: Random) -> str:
        if mode == "spread" and rng.random() < 0.2:
            return "cross"
        num_lines = str(parent.skeleton()).count("\n") + 1
        is_stub = num_lines <= _STUB_PROGRAM and not self._num_gains
        if not self._can_diff or mode in ("new", "fix") or num_lines <= _SHORT_PROGRAM or is_stub:
            return "rewrite"
        weights = [share * self._get_yield(form) ** 2 for form, share in (("diff", 0.6), ("rewrite", 0.4))]
        return rng.choices(("diff", "rewrite"), weights)[0]

    def _get_yield(self, form: str) -> float:
        usable, total = self._yields.get(form, (0.0, 0.0))
        return (usable + 2) / (total + 3)

    def _describe_state(self) -> dict[str, JSON]:
        best = self._best
        state: dict[str, JSON] = {"iterations": self._applied, "gains": self._num_gains, "since": self._since_rise}
        state |= {"calls": self._used_calls, "initial": self._initial, "stagnation": round(self.stagnation, 2)}
        state |= {"budget": self._num_calls} if self._num_calls is not None else {}
        return state | ({"best": best.score(), "best_id": _get_id(best)} if best else {})

    def learn(self, result: function.IterationResult) -> None:
        """Learns from an applied iteration: the best score, tries, attempts, errors and yields."""
        self._applied += 1
        self._used_calls += result.cost.calls
        parent, operator = result.parents[-1], str(result.advice.get(OPERATOR_KEY))
        if self._best is None:
            self._best, self._initial = parent, parent.score() if parent.evaluation else None
        uses_llm = result.advice.get("engine") == "llm"
        form = str(result.advice.get("mode"))
        if uses_llm:
            usable, total = self._yields.get(form, (0.0, 0.0))
            self._yields[form] = (usable + any(fn.evaluation is not None for fn, _ in result.children), total + 1)
        if result.failure is not None:
            self._memory.add_unusable(_get_id(parent), result.failure)
        old_best, population = self._best, self._populations.get(result.island)
        for fn, decision in result.children:
            self._learn_child(parent, fn, decision)
            if population is not None and uses_llm and operator != "fix" and self._is_failure(fn):
                population.note_failure(fn, parent)
        if population is not None and operator == "fix":
            population.drop_failure(_get_id(parent))
        has_risen = self._best is not old_best and self._is_large_rise(old_best, self._best)
        if has_risen:
            self._since_rise = 0
            self._num_gains += 1
        elif uses_llm and any(fn.evaluation is not None for fn, _ in result.children):
            self._since_rise += 1
        if population is not None and uses_llm:
            population.count_try(parent, is_new=operator == "new")

    def _is_failure(self, fn: function.Function) -> bool:
        result = fn.evaluation
        return result is not None and bool(result.failure or self._find_error(result))

    def _is_large_rise(self, old: function.Function, new: function.Function) -> bool:
        old_score, new_score, initial = old.score(), new.score(), self._initial
        if old_score is None or new_score is None or initial is None or self.find_error(old):
            return True
        return new_score - old_score > _SMALL_RISE * (new_score - initial)

    def _learn_child(self, parent: function.Function, fn: function.Function, decision: gate.Decision) -> None:
        result = fn.evaluation
        error = (result.failure or self._find_error(result)) if result else decision.reason
        is_best = not error and decision.verdict == "accept" and self._is_best(fn)
        gain = self._compute_gain(fn) if is_best else None
        self._memory.add_child(parent, fn, error, best_gain=gain)
        if is_best:
            self._best = fn
        self._fruitless[_get_id(parent)] += bool(error) or function.get_fitness(fn) <= function.get_fitness(parent)

    def _is_best(self, fn: function.Function) -> bool:
        best = self._best
        return best is None or bool(self.find_error(best)) or _get_order(fn) > _get_order(best)

    def _compute_gain(self, fn: function.Function) -> float | None:
        score, best = fn.score(), self._best.score() if self._best else None
        return score - best if score is not None and best is not None else None


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else ""


def _get_order(fn: function.Function) -> tuple[float, int]:
    """Returns the sort key: by score, then the shorter program; for equals the older one stays ahead."""
    return (function.get_fitness(fn), -len(str(fn.skeleton())))


def _get_lines(fn: function.Function) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, str(fn.skeleton()).splitlines())))
