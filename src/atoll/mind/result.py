"""What a run came to: which problems are solved, at what cost, and why each search ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll import cluster
from atoll.candidate import JSON
from atoll.mind import judge, pool, standing, subject


@dataclass(slots=True)
class Conclusion:
    """Sums up a run when it is over; only now solutions are looked at, by another process, if there are any."""

    about: subject.Subject
    known: standing.Standing
    method: str
    _kept: Mapping[str, JSON] | None = None

    def close(self) -> None:
        """Makes the best plans last, then ends what was started; the second time there is nothing left to do."""
        try:
            if self._kept is None:
                self._kept = {}  # also if that fails: nothing can be kept once all is closed
                self._kept = self.about.keep(self.plans())
        finally:
            self.about.close()

    def __call__(self, evolver: cluster.Evolver) -> Mapping[str, JSON]:
        plans = self.plans()
        grades = self.about.grade(plans) if plans else {}
        rows = [self._row(place, grades) for place in range(len(self.about.problems))]
        spent, number = evolver.spending, max(1, len(rows))
        return {
            "method": self.method,
            "solved": sum(bool(row["solved"]) for row in rows),
            "total": len(rows),
            "graded": "by the file's solutions" if any(each is not None for each in grades.values()) else "by the task",
            "calls": spent.cost.calls,
            "evaluations": spent.evaluations,
            "tokens": spent.cost.tokens_in + spent.cost.tokens_out,
            "evaluations_per_problem": round(sum(len(each.judged) for each in self.known.states) / number, 1),
            "ended": ", ".join(standing.counted(self.known.states)),
            **(self._kept or {}),
            "instances": rows,
        }

    def plans(self) -> dict[str, str]:
        """Returns the best plan of every problem that has one."""
        found = zip(self.about.problems, self.known.states, strict=True)
        return {
            problem.id: judge.plan_of(str(state.best.skeleton())) for problem, state in found if state.best is not None
        }

    def _row(self, place: int, grades: Mapping[str, bool | None]) -> dict[str, JSON]:
        problem, state = self.about.problems[place], self.known.states[place]
        found = state.best.evaluation if state.best is not None else None
        grade = grades.get(problem.id)
        return {
            "id": problem.id,
            "solved": judge.is_solved(found) if grade is None else grade,
            "score": found.metrics.get(judge.SCORE) if found is not None else None,
            "evaluations": len(state.judged),
            "calls": state.calls,
            "tokens": state.tokens,
            "usd": round(state.usd, 6),
            "candidate": pool.id_of(state.best) if state.best is not None else "",
            "ended": state.reason or "the run ended first",
        }
