"""Proposer without an LLM. It recombines and mutates decision traces, guided by the feedback."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from atoll import function
from atoll.candidate import JSON, Candidate
from atoll.mind import plan_evaluator, population
from atoll.mind.actions import Action, Task
from atoll.mind.generations import GenerationClock, is_problem_done
from atoll.mind.tasks.problem import Problem

type Trace = tuple[Action, ...]

NAMED_RATE = 0.8  # probability of changing an action that the feedback names


def random_trace(moves: Sequence[Action], rng: Random) -> Trace:
    """Returns all moves in random order."""
    return tuple(rng.sample(list(moves), len(moves)))


def recombine_traces(base: Trace, donor: Trace, rng: Random) -> Trace:
    """Inserts a segment of the donor trace into the base trace at the same position. Repeated actions are dropped."""
    if len(donor) < 2:
        return base or donor
    first, last = sorted(rng.sample(range(len(donor) + 1), 2))
    segment = donor[first:last]
    remaining = [action for action in base if action not in segment]
    index = min(first, len(remaining))
    return (*remaining[:index], *segment, *remaining[index:])


def mutate_trace(
    trace: Trace,
    moves: Sequence[Action],
    rng: Random,
    named_goals: Collection[str] = (),
    *,
    requires_all_moves: bool = False,
) -> Trace:
    """Returns a trace with one change, mostly at an action that the feedback names.

    Args:
        trace: The trace to change.
        moves: All allowed actions.
        rng: Random generator.
        named_goals: Goals of actions that the feedback names.
        requires_all_moves: Whether a plan needs every move, so none is dropped or replaced.
    """
    unused = [move for move in moves if move not in trace]
    if unused and (requires_all_moves or not trace or rng.random() < len(unused) / len(moves)):
        return _insert(trace, rng.choice(unused), rng)
    index = _choose_index(trace, named_goals, rng)
    operations = ["move", "swap", "reverse"] if len(trace) > 1 else []
    operations += ["drop"] * (len(trace) > 1 and not requires_all_moves) + ["replace"] * bool(
        unused and not requires_all_moves
    )
    match rng.choice(operations or ["none"]):
        case "move":
            return _insert((*trace[:index], *trace[index + 1 :]), trace[index], rng)
        case "swap":
            other_index = _choose_other_index(len(trace), index, rng)
            swapped = list(trace)
            swapped[index], swapped[other_index] = swapped[other_index], swapped[index]
            return tuple(swapped)
        case "reverse":
            first, last = sorted((index, _choose_other_index(len(trace), index, rng)))
            return (*trace[:first], *reversed(trace[first : last + 1]), *trace[last + 1 :])
        case "drop":
            return (*trace[:index], *trace[index + 1 :])
        case "replace":
            return (*trace[:index], rng.choice(unused), *trace[index + 1 :])
        case _:
            return trace


def find_named_goals(feedback: str, trace: Trace) -> set[str]:
    """Returns the goals of a trace that the feedback names."""
    return {action.goal for action in trace if isinstance(action, Task) and action.goal in feedback}


def _choose_index(trace: Trace, named_goals: Collection[str], rng: Random) -> int:
    """Returns the index of an action that the feedback names, or of any action."""
    named_indices = [
        index for index, action in enumerate(trace) if isinstance(action, Task) and action.goal in named_goals
    ]
    return rng.choice(named_indices) if named_indices and rng.random() < NAMED_RATE else rng.randrange(len(trace))


def _choose_other_index(length: int, index: int, rng: Random) -> int:
    other_index = rng.randrange(length - 1)
    return other_index + (other_index >= index)


def _insert(trace: Trace, action: Action, rng: Random) -> Trace:
    index = rng.randrange(len(trace) + 1)
    return (*trace[:index], action, *trace[index:])


@dataclass(frozen=True, slots=True)
class TraceMutator:
    """Makes a trace from the parents in each iteration, then changes the best so far turn by turn.

    Attributes:
        problems: In the order of the schedule.
        base: Function that every candidate is cloned from.
        num_turns: Plans per iteration.
        is_memoryless: Whether each plan is random, without parents and earlier turns.
    """

    problems: Sequence[Problem]
    base: function.Function
    clock: GenerationClock
    num_turns: int = 4
    is_memoryless: bool = False

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        position = self.clock.get_position(context.iteration)
        if context.iteration > self.clock.num_iterations or is_problem_done(context.advice, position.problem):
            return []
        problem, children = self.problems[position.problem], list[function.Function]()
        trace = self._make_initial_trace(problem, context)
        best: tuple[Trace, str, float] | None = None  # trace, feedback and score of the best turn
        parent_ids = tuple(population.get_id(fn) for fn in context.parents)
        has_parents = context.parents and not self.is_memoryless
        parent_plan = plan_evaluator.get_plan(str(context.parents[-1].skeleton())) if has_parents else None
        for turn_index in range(self.num_turns):
            plan = problem.format_plan(trace)
            content = plan_evaluator.PlanText(plan_evaluator.make_content(problem, plan), parent_plan=parent_plan)
            meta: dict[str, JSON] = {
                "generation": position.generation,
                "conversation": position.conversation,
                "turn": turn_index,
            }
            fn = self.base.clone(content).with_evaluation(Candidate("", content, parent_ids, meta=meta))
            (evaluation,) = context.evaluate([fn])
            children.append(fn)
            if plan_evaluator.is_solved(evaluation) or evaluation.score is None:
                break
            if best is None or evaluation.score >= best[2]:
                best, parent_ids = (
                    (trace, evaluation.feedback, evaluation.score),
                    (f"{context.iteration}.{turn_index}",),
                )
                parent_plan = None if self.is_memoryless else plan
            trace = self._mutate(problem, best[0], best[1], context)
        return children

    def _make_initial_trace(self, problem: Problem, context: function.ProposalContext) -> Trace:
        parent_traces = [
            problem.parse_trace(plan_evaluator.get_plan(str(fn.skeleton()))) for fn in reversed(context.parents)
        ]
        if not parent_traces or self.is_memoryless:
            return random_trace(problem.moves, context.rng)
        if len(parent_traces) == 1:
            evaluation = context.parents[0].evaluation
            return self._mutate(problem, parent_traces[0], evaluation.feedback if evaluation else "", context)
        return recombine_traces(parent_traces[0], parent_traces[1], context.rng)

    def _mutate(self, problem: Problem, trace: Trace, feedback: str, context: function.ProposalContext) -> Trace:
        """Changes a trace, mostly at a decision that the feedback names."""
        if self.is_memoryless:
            return random_trace(problem.moves, context.rng)
        named_goals = find_named_goals(feedback, trace)
        return mutate_trace(
            trace, problem.moves, context.rng, named_goals, requires_all_moves=problem.requires_all_moves
        )
