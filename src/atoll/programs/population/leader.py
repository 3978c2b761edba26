"""Search policy `leader`: refine the best program, and give a few other approaches a fair number of tries.

A lineage is a root program and all its descendants. A root is the initial program or a program of the operator `new`.
The leader is the lineage of the best program; another lineage is a challenger while it still gets tries.

A small LLM finds more by independent tries than by changing its own first success, and a long history confuses it. So a
run of 50 calls or more opens with samples, unless most of them raise the score. If the LLM writes few valid programs,
the run also draws samples later. Most iterations are samples until the first gain. After it samples are rare while the
best score rises, and more frequent in stagnation. With such an LLM, prompts on the best program often leave out the
history and the notes.

In lasting stagnation the LLM also names other methods when it writes a `new` program. These names are directions, which
later `new` programs follow. Notes of an LLM name directions too, and then `spread` and `challenge` also follow them.

| mode      | parent                                                         |
|-----------|----------------------------------------------------------------|
| sample    | the initial program, without the history of the run            |
| refine    | the best program                                               |
| spread    | one of the best 20 programs of the leader, by score and gains  |
| challenge | the best of a challenger                                       |
| new       | the best or the initial program; asks for another method       |
| fix       | a failed program, or the best one if it reports an error       |
| notes     | the best program; asks for notes on the run (`run_notes.py`)   |

These modes are stored as `operator`. `mutation.Mode` is something else: the form of a response, such as `diff`.

A selection depends only on the applied iterations and on random numbers of its iteration, so a resumed run repeats it.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

from atoll import cluster, evaluation, function, gate
from atoll.candidate import JSON
from atoll.programs.learners import AttemptMemory
from atoll.programs.population.leader_population import (
    OPERATOR_KEY,
    LeaderPopulation,
    Mode,
    choose_settings,
    get_id,
    get_order,
)
from atoll.programs.run_notes import RunNotes, make_advice

STATE_KEY, NOTES_KEY, SCRATCH_KEY, TEMPERATURE_KEY = "state", "run_notes", "from_scratch", "temperature_shift"
PLAIN_KEY, DIRECTION_KEY, ASK_KEY = "without_history", "direction", "asks_directions"
_ASK_STAGNATION, _MIN_CALLS_LEFT = 2.0, 10  # from here on the LLM also names other methods
_MAX_DIRECTIONS, _MAX_DIRECTION_TRIES = 6, 2
_SMALL_RISE = 1e-4  # of the whole gain; a smaller rise does not count against stagnation
_SHORT_PROGRAM, _STUB_PROGRAM = 40, 120  # lines; edits of shorter programs, and of stubs, waste calls
_FIX_SHARE, _MIN_FIX_SHARE = 0.3, 0.02  # of iterations: if all repairs help, and if none does
_PRIOR_CALLS = 10  # imagined calls of an operator with the normal rate of valid programs
_PLAIN_PRIOR, _HISTORY_PRIOR = (2.0, 4.0), (1.0, 4.0)  # imagined gains and failures of both kinds of prompts
_ARM_DECAY = 0.95  # weight of an outcome after each later one
_MIN_ARM_SHARE = 0.1
_MAX_OPENING = 12  # samples
_EARLY_SAMPLE_SHARE = 0.75  # of a weak LLM until the first gain: until then, other prompts have nothing more to show
_SAMPLE_SHARE, _MAX_SAMPLE_SHARE = 0.1, 0.3  # of a weak LLM later, while the best score rises and in stagnation
_SAMPLE_STAGNATION = 3.0  # from here on the share has its maximum
_STRONG_SHARE, _WEAK_SHARE = 0.7, 0.4  # valid programs per call: of an LLM that needs no samples, and of a weak one
_WEAK_EXPLORE_CUT = 0.5  # reduces the shares of `challenge` and `spread`: a weak LLM explores by samples
_MAX_TEMPERATURE_SHIFT, _REPEAT_DECAY = 0.3, 0.9


class LeaderSearch:
    """The policy of a run: makes the populations, advises each iteration and learns from it.

    Args:
        num_calls: Budget in LLM calls; None: unlimited.
        find_error: Returns the error that an evaluation reports beside its score; empty if there is none.
        can_diff: Whether edits may be requested; otherwise full programs only.
        engines: Share of the iterations for each mutator without an LLM, by name.
        notes: Notes on the run by an LLM; None: none.
    """

    def __init__(
        self,
        num_calls: int | None = None,
        *,
        find_error: Callable[[evaluation.Evaluation], str] = lambda result: "",
        can_diff: bool = True,
        engines: Mapping[str, float] | None = None,
        notes: RunNotes | None = None,
    ) -> None:
        self.settings = choose_settings(num_calls)
        self._num_calls, self._can_diff, self._engines = num_calls, can_diff, dict(engines or {})
        self._find_error = find_error
        self._populations: dict[int, LeaderPopulation] = {}
        self._fruitless = Counter[str]()
        self._memory, self._notes = AttemptMemory(), notes or RunNotes("built")
        self._initial: float | None = None
        self._best: function.Function | None = None
        self._repair_goals: dict[str, float] = {}  # score to beat, by failed program
        self._num_repairs = self._num_useful_repairs = 0
        self._num_openings = self._num_opening_gains = 0  # evaluated children of the initial program
        self._since_rise = self._applied = self._num_gains = self._used_calls = 0
        self._yields: dict[str, tuple[float, float]] = {}  # usable responses and requests of each form
        self._calls, self._valid = Counter[str](), Counter[str]()  # LLM calls and valid programs of each operator
        self._repeat_share = 0.0  # of recent iterations whose first response repeated a program
        self._arms: dict[str, tuple[float, float]] = {}  # recent gains and failures of each way to make a prompt
        self._directions: dict[str, int] = {}  # tries of each method that the LLM named
        self._selection: tuple[Mode, function.Function, bool, bool] | None = None

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
        """Evaluated children since the best score last rose, divided by the patience for this budget."""
        patience = 20 if self._num_calls is None else min(40, max(6, math.ceil(0.08 * self._num_calls)))
        return self._since_rise / patience

    @property
    def is_opening(self) -> bool:
        """True in the first phase of the run, in which it only samples."""
        limit = min(_MAX_OPENING, math.ceil(self.settings.opening * (self._num_calls or 0)))
        return self._num_openings < min(2, limit) or (
            self._num_openings < limit and 2 * self._num_opening_gains <= self._num_openings
        )

    def draw_sample(self, rng: Random) -> bool:
        """Returns whether the next program is a sample: a change of the initial program without the history."""
        if not self._draw_weak(rng):
            return False
        if not self._num_gains:
            return rng.random() < _EARLY_SAMPLE_SHARE
        level = min(1.0, self.stagnation / _SAMPLE_STAGNATION)
        return rng.random() < _SAMPLE_SHARE + (_MAX_SAMPLE_SHARE - _SAMPLE_SHARE) * level

    def draw_plain(self, rng: Random) -> bool:
        """Returns whether the next prompt on the best program leaves out the history."""
        if not self._draw_weak(rng):
            return False
        if rng.random() < 2 * _MIN_ARM_SHARE:
            return rng.random() < 0.5
        return self._draw_rate("plain", _PLAIN_PRIOR, rng) > self._draw_rate("history", _HISTORY_PRIOR, rng)

    @property
    def _weakness(self) -> float:
        """Degree to which the LLM counts as weak, from 0 to 1. It is 1 if at most 40 % of its programs are valid."""
        if not self.settings.has_samples:
            return 0.0
        valid_share = (self._valid.total() + 8) / (self._calls.total() + 10)
        return min(1.0, max(0.0, (_STRONG_SHARE - valid_share) / (_STRONG_SHARE - _WEAK_SHARE)))

    def _draw_weak(self, rng: Random) -> bool:
        """Returns whether to treat the LLM as a weak one."""
        return self.settings.has_samples and rng.random() < self._weakness

    def _draw_rate(self, arm: str, prior: tuple[float, float], rng: Random) -> float:
        """Returns a random rate of gains of one kind of prompt (arm), for Thompson sampling."""
        gains, failures = self._arms.get(arm, (0.0, 0.0))
        return rng.betavariate(prior[0] + gains, prior[1] + failures)

    def _count_arm(self, name: str, *, has_gain: bool) -> None:
        gains, failures = (_ARM_DECAY * count for count in self._arms.get(name, (0.0, 0.0)))
        self._arms[name] = (gains + has_gain, failures + (not has_gain))

    def compute_shares(self) -> tuple[float, float]:
        """Returns the shares of the modes challenge and spread."""
        settings, level = self.settings, min(1.0, self.stagnation / 2)
        end = settings.explore_end if self._num_gains else (settings.explore_start + settings.explore_end) / 2
        explore = settings.explore_start + (end - settings.explore_start) * level
        explore *= 1 - _WEAK_EXPLORE_CUT * self._weakness
        spread = (0.1 if self.stagnation < 1 else 0.2) * (1 - _WEAK_EXPLORE_CUT * self._weakness)
        return max(0.1, explore * self._weigh("new", "challenge")), spread * self._weigh("spread")

    def _weigh(self, *operators: str) -> float:
        """Returns a factor for a share: small if these operators give fewer valid programs per call than `refine`."""
        normal = (self._valid["refine"] + 2) / (self._calls["refine"] + 3)
        valid, calls = (sum(counts[name] for name in operators) for counts in (self._valid, self._calls))
        rate = (valid + _PRIOR_CALLS * normal) / (calls + _PRIOR_CALLS)
        return min(1.0, (rate / normal) ** 2)

    def note_initial(self, fn: function.Function) -> None:
        """Keeps the first program of an island; that of the first island is the initial program of the run."""
        if self._best is None:
            self._best, self._initial = fn, fn.score()

    def note_selection(
        self, mode: Mode, parent: function.Function, *, is_scratch: bool = False, is_plain: bool = False
    ) -> None:
        """Keeps a selection for the advice of the same iteration."""
        self._selection = (mode, parent, is_scratch, is_plain)

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns the operator, the form of the response, the state of the run and the earlier attempts."""
        if self._selection is None:
            return {}
        mode, parent, is_scratch, is_plain = self._selection
        if mode == "notes":
            records, rows = self._memory.list_latest(), self._list_notes()
            return make_advice(records, rows, self._directions, self._describe_state())
        advice: dict[str, JSON] = {OPERATOR_KEY: mode, "mode": self._choose_form(mode, parent, rng)}
        advice["engine"] = self._choose_engine(mode, rng)
        advice |= {SCRATCH_KEY: True} if is_scratch else {}
        takes_direction = mode == "new" or (self._notes.has_notes and mode in ("spread", "challenge"))
        if takes_direction and not is_scratch and advice["mode"] != "cross":
            advice |= self._advise_direction(mode, rng)
        if (shift := round(min(_MAX_TEMPERATURE_SHIFT, self._repeat_share), 1)) > 0:
            advice[TEMPERATURE_KEY] = shift
        advice[STATE_KEY] = self._describe_state()
        if is_plain:
            return advice | {PLAIN_KEY: True}
        if attempts := self._memory.choose_attempts(get_id(parent)):
            advice["attempts"] = attempts
        if notes := self._list_notes():
            advice[NOTES_KEY] = notes
        return advice

    def _list_notes(self) -> Sequence[JSON]:
        """Returns the notes from the records, which are true, and then those of the LLM."""
        return [*self._memory.list_notes(), *self._notes.list_rows()]

    def starts_notes(self) -> bool:
        """Returns whether the next iteration asks the LLM for notes on the run."""
        valid_share = self._valid.total() / max(1, self._calls.total())
        return self._notes.start(valid_share, self._count_calls_left())

    def _count_calls_left(self) -> float:
        return math.inf if self._num_calls is None else self._num_calls - self._used_calls

    def _advise_direction(self, mode: Mode, rng: Random) -> Mapping[str, JSON]:
        """Returns advice with a method to try, or advice that asks the LLM for methods. Those of notes take turns."""
        untried = [name for name, tries in self._directions.items() if tries < _MAX_DIRECTION_TRIES]
        if untried and self._notes.has_notes:
            fewest = min(self._directions[name] for name in untried)
            untried = [name for name in untried if self._directions[name] == fewest]
        if untried:
            return {DIRECTION_KEY: rng.choice(untried)}
        if mode != "new":
            return {}
        has_calls = self._count_calls_left() >= _MIN_CALLS_LEFT
        return {ASK_KEY: True} if self.stagnation >= _ASK_STAGNATION and has_calls else {}

    def _learn_directions(self, result: function.IterationResult) -> None:
        """Counts a try of a direction, and keeps the directions that the LLM named when it was asked."""
        if (direction := result.advice.get(DIRECTION_KEY)) in self._directions:
            self._directions[str(direction)] += 1
        if not result.advice.get(ASK_KEY):
            return
        for fn, _ in result.children:
            named = fn.candidate.meta.get("next") if fn.candidate else None
            for name in named if isinstance(named, Sequence) else ():
                if len(self._directions) < _MAX_DIRECTIONS:
                    self._directions.setdefault(str(name), 0)

    def _choose_engine(self, mode: Mode, rng: Random) -> str:
        if mode in ("refine", "spread"):
            draw = rng.random()
            for name, share in self._engines.items():
                if draw < share:
                    return name
                draw -= share
        return "llm"

    def _choose_form(self, mode: Mode, parent: function.Function, rng: Random) -> str:
        if mode == "spread" and rng.random() < 0.4 * self._get_yield("cross") ** 2:
            return "cross"
        num_lines = str(parent.skeleton()).count("\n") + 1
        is_stub = num_lines <= _STUB_PROGRAM and not self._num_gains
        if not self._can_diff or mode in ("new", "fix", "sample") or num_lines <= _SHORT_PROGRAM or is_stub:
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
        return state | ({"best": best.score(), "best_id": get_id(best)} if best else {})

    def learn(self, result: function.IterationResult) -> None:
        """Learns from an applied iteration: the best score, tries, attempts, errors and yields."""
        self._applied += 1
        self._used_calls += result.cost.calls
        parent, operator = result.parents[-1], str(result.advice.get(OPERATOR_KEY))
        uses_llm = result.advice.get("engine") == "llm"
        is_evaluated = uses_llm and any(fn.evaluation is not None for fn, _ in result.children)
        self._notes.count(is_evaluated)
        if operator == "notes":
            if directions := self._notes.learn(result):
                self._directions = dict.fromkeys(directions, 0)
            return
        form = str(result.advice.get("mode"))
        if uses_llm:
            usable, total = self._yields.get(form, (0.0, 0.0))
            self._yields[form] = (usable + is_evaluated, total + 1)
            self._calls[operator] += max(1, result.cost.calls)
            self._valid[operator] += any(fn.evaluation and not self._is_failure(fn) for fn, _ in result.children)
            self._repeat_share *= _REPEAT_DECAY
            self._repeat_share += (1 - _REPEAT_DECAY) * _has_repeat(result)
        if result.failure is not None:
            self._memory.add_unusable(get_id(parent), result.failure)
        if uses_llm and self._is_initial(parent) and operator in ("sample", "refine", "new"):
            scored = [fn for fn, _ in result.children if fn.evaluation is not None]
            self._num_openings += bool(scored)
            self._num_opening_gains += any(self._is_gain(fn, parent) for fn in scored)
        old_best, population = self._best, self._populations.get(result.island)
        for fn, decision in result.children:
            self._learn_child(parent, fn, decision)
            if population is not None and uses_llm and operator != "fix" and self._is_failure(fn):
                population.note_failure(fn, parent)
                self._repair_goals[get_id(fn)] = function.get_fitness(parent)
        if operator == "fix":
            self._learn_repair(result, population)
        new_best = self._best if self._best is not old_best else None
        has_risen = bool(new_best and old_best and self.is_large_rise(old_best, new_best))
        if uses_llm and operator == "refine":
            is_better = any(self._is_gain(fn, parent) for fn, _ in result.children)
            self._count_arm("plain" if result.advice.get(PLAIN_KEY) else "history", has_gain=is_better)
        self._learn_directions(result)
        if has_risen:
            self._since_rise = 0
            self._num_gains += 1
            if not self._notes.has_notes:  # directions of notes hold after a gain too
                self._directions.clear()
        elif is_evaluated:
            self._since_rise += 1
        if population is not None and uses_llm and (operator != "sample" or has_risen):
            population.count_try(parent, is_new=operator == "new")

    def _learn_repair(self, result: function.IterationResult, population: LeaderPopulation | None) -> None:
        """Counts a repair as useful if its child beats the program that the failed one was made from."""
        id = get_id(result.parents[-1])
        goal = self._repair_goals.pop(id, -math.inf)
        scores = [function.get_fitness(fn) for fn, _ in result.children if fn.evaluation and not self._is_failure(fn)]
        self._num_repairs += 1
        self._num_useful_repairs += max(scores, default=-math.inf) > goal
        if population is not None:
            population.drop_failure(id)

    @property
    def fix_share(self) -> float:
        """Share of iterations that repair failed programs: more where repairs were useful."""
        return max(_MIN_FIX_SHARE, _FIX_SHARE * (self._num_useful_repairs + 1) / (self._num_repairs + 3))

    def _is_gain(self, fn: function.Function, parent: function.Function) -> bool:
        is_valid = fn.evaluation is not None and not self._is_failure(fn)
        return is_valid and function.get_fitness(fn) > function.get_fitness(parent)

    def _is_initial(self, fn: function.Function) -> bool:
        return bool(fn.candidate) and not (fn.candidate and fn.candidate.parents)

    def _is_failure(self, fn: function.Function) -> bool:
        result = fn.evaluation
        return result is not None and bool(result.failure or self._find_error(result))

    def is_large_rise(self, old: function.Function, new: function.Function) -> bool:
        """Returns whether a new best counts as progress. A tiny rise makes a new best but ends no stagnation."""
        old_score, new_score, initial = old.score(), new.score(), self._initial
        if old_score is None or new_score is None or initial is None or self.find_error(old):
            return True
        return new_score - old_score > _SMALL_RISE * (new_score - initial)

    def _learn_child(self, parent: function.Function, fn: function.Function, decision: gate.Decision) -> None:
        result = fn.evaluation
        error = (result.failure or self._find_error(result)) if result else decision.reason
        is_best = not error and decision.verdict == "accept" and self._is_best(fn)
        gain = self._compute_gain(fn) if is_best else None
        self._memory.add_child(parent, fn, error, best_gain=gain, is_parent_valid=not self._is_failure(parent))
        if is_best:
            self._best = fn
        self._fruitless[get_id(parent)] += bool(error) or function.get_fitness(fn) <= function.get_fitness(parent)

    def _is_best(self, fn: function.Function) -> bool:
        best = self._best
        return best is None or bool(self.find_error(best)) or get_order(fn) > get_order(best)

    def _compute_gain(self, fn: function.Function) -> float | None:
        score, best = fn.score(), self._best.score() if self._best else None
        return score - best if score is not None and best is not None else None


def _has_repeat(result: function.IterationResult) -> bool:
    """Returns whether the LLM first answered with a program that the run already had."""
    faults = [fn.candidate.meta.get("first_fault") for fn, _ in result.children if fn.candidate]
    failure = result.failure or ""
    return bool({"unchanged", "duplicate"} & set(faults)) or "repeats the program" in failure or "is not new" in failure
