"""The engine that needs no model: conversations in which the judge is the critic and the author changes a trace."""

from collections.abc import Sequence
from dataclasses import dataclass

from atoll import function
from atoll.candidate import JSON, Candidate
from atoll.mind import judge, pool, traces
from atoll.mind.rounds import GenerationClock
from atoll.mind.standing import is_problem_done
from atoll.mind.tasks.problem import Problem


@dataclass(frozen=True, slots=True)
class TraceMutator:
    """Every step makes one trace of its parents' and changes it turn by turn, from the best so far.

    Attributes:
        problems: In the order of the schedule.
        base: What every candidate is a clone of.
        num_turns: Plans that a step makes.
        is_fresh: Whether parents and earlier turns are of no account: every plan is drawn anew.
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
        best: tuple[traces.Trace, str, float] | None = (
            None  # of the best turn: what, what was said of it, its score
        )
        parent_ids = tuple(pool.get_id(fn) for fn in context.parents)
        for turn_index in range(self.num_turns):
            plan = problem.format_plan(trace)
            content = function.Text(judge.make_content(problem, plan))
            meta: dict[str, JSON] = {"generation": position.generation, "conversation": position.conversation, "turn": turn_index}
            fn = self.base.clone(content).with_evaluation(Candidate("", content, parent_ids, meta=meta))
            (evaluation,) = context.evaluate([fn])
            children.append(fn)
            if judge.is_solved(evaluation) or evaluation.score is None:
                break
            if best is None or evaluation.score >= best[2]:
                best, parent_ids = (trace, evaluation.feedback, evaluation.score), (f"{context.iteration}.{turn_index}",)
            trace = self._mutate(problem, best[0], best[1], context)
        return children

    def _make_initial_trace(self, problem: Problem, context: function.ProposalContext) -> traces.Trace:
        parent_traces = [problem.parse_trace(judge.get_plan(str(fn.skeleton()))) for fn in reversed(context.parents)]
        if not parent_traces or self.is_memoryless:
            return traces.random_trace(problem.moves, context.rng)
        if len(parent_traces) == 1:
            evaluation = context.parents[0].evaluation
            return self._mutate(problem, parent_traces[0], evaluation.feedback if evaluation else "", context)
        return traces.recombine_traces(parent_traces[0], parent_traces[1], context.rng)

    def _mutate(self, problem: Problem, trace: traces.Trace, feedback: str, context: function.ProposalContext) -> traces.Trace:
        """Changes a trace, mostly at a decision that the judge's words name."""
        if self.is_memoryless:
            return traces.random_trace(problem.moves, context.rng)
        named_goals = traces.find_named_goals(feedback, trace)
        return traces.mutate_trace(trace, problem.moves, context.rng, named_goals, requires_all_moves=problem.requires_all_moves)
