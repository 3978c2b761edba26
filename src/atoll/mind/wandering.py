"""The engine that needs no model: conversations in which the judge is the critic and the author changes a trace."""

from collections.abc import Sequence
from dataclasses import dataclass

from atoll import function
from atoll.candidate import JSON, Candidate
from atoll.mind import judge, pool, traces
from atoll.mind.rounds import Rounds
from atoll.mind.standing import is_over
from atoll.mind.tasks.problem import Problem


@dataclass(frozen=True, slots=True)
class Wandering:
    """Every step makes one trace of its parents' and changes it turn by turn, from the best so far.

    Attributes:
        problems: In the order of the schedule.
        base: What every candidate is a clone of.
        num_turns: Plans that a step makes.
        is_fresh: Whether parents and earlier turns are of no account: every plan is drawn anew.
    """

    problems: Sequence[Problem]
    base: function.Function
    rounds: Rounds
    num_turns: int = 4
    is_fresh: bool = False

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        turn = self.rounds.turn(task.step)
        if task.step > self.rounds.num_steps or is_over(task.advice, turn.problem):
            return []
        problem, made = self.problems[turn.problem], list[function.Function]()
        trace = self._begun(problem, task)
        standing: tuple[traces.Trace, str, float] | None = (
            None  # of the best turn: what, what was said of it, its score
        )
        ids = tuple(pool.id_of(fn) for fn in task.parents)
        for number in range(self.num_turns):
            plan = problem.write(trace)
            content = function.Text(judge.content_of(problem, plan))
            meta: dict[str, JSON] = {"generation": turn.generation, "conversation": turn.conversation, "turn": number}
            fn = self.base.clone(content).settle(Candidate("", content, ids, meta=meta))
            (found,) = task.judge([fn])
            made.append(fn)
            if judge.is_solved(found) or found.score is None:
                break
            if standing is None or found.score >= standing[2]:
                standing, ids = (trace, found.feedback, found.score), (f"{task.step}.{number}",)
            trace = self._changed(problem, standing[0], standing[1], task)
        return made

    def _begun(self, problem: Problem, task: function.Task) -> traces.Trace:
        parents = [problem.trace(judge.plan_of(str(fn.skeleton()))) for fn in reversed(task.parents)]
        if not parents or self.is_fresh:
            return traces.random_trace(problem.moves, task.rng)
        if len(parents) == 1:
            said = task.parents[0].evaluation
            return self._changed(problem, parents[0], said.feedback if said else "", task)
        return traces.recombination(parents[0], parents[1], task.rng)

    def _changed(self, problem: Problem, trace: traces.Trace, said: str, task: function.Task) -> traces.Trace:
        """Changes a trace, mostly at a decision that the judge's words name."""
        if self.is_fresh:
            return traces.random_trace(problem.moves, task.rng)
        named = traces.named_in(said, trace)
        return traces.mutation(trace, problem.moves, task.rng, named, uses_all=problem.uses_all)
