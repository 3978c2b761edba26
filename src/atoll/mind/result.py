"""What a run came to: which problems are solved, at what cost, and why each search ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll import cluster
from atoll.candidate import JSON
from atoll.mind import judge, pool, standing, subject


@dataclass(slots=True)
class RunConclusion:
    """Sums up a run when it is over; only now solutions are looked at, by another process, if there are any."""

    problem_set: subject.ProblemSet
    status: standing.ProblemStatus
    method: str
    _saved: Mapping[str, JSON] | None = None

    def close(self) -> None:
        """Makes the best plans last, then ends what was started; the second time there is nothing left to do."""
        try:
            if self._saved is None:
                self._saved = {}  # also if that fails: nothing can be kept once all is closed
                self._saved = self.problem_set.save_best(self.get_best_plans())
        finally:
            self.problem_set.close()

    def __call__(self, evolver: cluster.Evolver) -> Mapping[str, JSON]:
        plans = self.get_best_plans()
        grades = self.problem_set.grade(plans) if plans else {}
        rows = [self._make_row(index, grades) for index in range(len(self.problem_set.problems))]
        usage, count = evolver.usage, max(1, len(rows))
        return {
            "method": self.method,
            "solved": sum(bool(row["solved"]) for row in rows),
            "total": len(rows),
            "graded": "by the file's solutions" if any(grade is not None for grade in grades.values()) else "by the task",
            "calls": usage.cost.calls,
            "evaluations": usage.evaluations,
            "tokens": usage.cost.tokens_in + usage.cost.tokens_out,
            "evaluations_per_problem": round(sum(len(state.evaluated) for state in self.status.states) / count, 1),
            "ended": ", ".join(standing.count_reasons(self.status.states)),
            **(self._saved or {}),
            "instances": rows,
        }

    def get_best_plans(self) -> dict[str, str]:
        """Returns the best plan of every problem that has one."""
        pairs = zip(self.problem_set.problems, self.status.states, strict=True)
        return {
            problem.id: judge.get_plan(str(state.best.skeleton())) for problem, state in pairs if state.best is not None
        }

    def _make_row(self, index: int, grades: Mapping[str, bool | None]) -> dict[str, JSON]:
        problem, state = self.problem_set.problems[index], self.status.states[index]
        evaluation = state.best.evaluation if state.best is not None else None
        grade = grades.get(problem.id)
        return {
            "id": problem.id,
            "solved": judge.is_solved(evaluation) if grade is None else grade,
            "score": evaluation.metrics.get(judge.SCORE) if evaluation is not None else None,
            "evaluations": len(state.evaluated),
            "calls": state.calls,
            "tokens": state.tokens,
            "usd": round(state.usd, 6),
            "candidate": pool.get_id(state.best) if state.best is not None else "",
            "ended": state.reason or "the run ended first",
        }
