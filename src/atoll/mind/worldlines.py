"""Worldlines of one problem: forked, run, judged, recombined and changed, all of them kept in a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from atoll import function
from atoll.mind import judge, kinds, review, traces
from atoll.mind.actions import Action, Task, WorldlineFork
from atoll.mind.graph import WorldlineGraph, initialize_worldline_graph
from atoll.mind.tasks.problem import Problem, Verdict
from atoll.mind.worldline import BASE, METRICS, Plan, Worldline


@dataclass(eq=False)
class WorldlineManager:
    """What a host offers to whoever evolves worldlines: fork, run, mutate, recombine, evaluate, archive.

    Attributes:
        problem: What is planned.
        kind: Makes worldlines real: texts, or workspaces.
        graph: Every worldline that there was.
        reviewer: Approves; nothing that needs an approval happens without its record.
    """

    problem: Problem
    rng: Random = field(default_factory=lambda: Random(0))
    kind: kinds.Kind = field(default_factory=kinds.TextKind)
    graph: WorldlineGraph = field(default_factory=initialize_worldline_graph)
    reviewer: review.ReviewAgent = field(default_factory=review.ReviewAgent)

    def investigate(self, roles: Sequence[str] = ("explorer",)) -> Plan:
        """Returns a plan to begin with: the moves of the problem in an order drawn anew, given to roles in turn."""
        return Plan(
            traces.random_trace(self.problem.moves, self.rng), (BASE,), note=f"investigated by {', '.join(roles)}"
        )

    def fork(self, parent: str, plan: Plan) -> Worldline:
        """Starts a worldline where another one stands; nothing of the plan was done yet."""
        line = self.kind.fork(self.graph.get(parent), plan, f"W{len(self.graph.lines)}")
        return self.graph.add(line)

    def run(self, plan: Plan) -> Worldline:
        """Forks the base and does what a plan says: its trace is a whole, whoever its parents are."""
        line = self.fork(BASE, plan)
        return self.graph.add(self.kind.run(line, plan))

    def recombine(self, one: Worldline, other: Worldline) -> Plan:
        """Returns a fork plan of two decision traces."""
        trace = traces.recombination(moves(one), moves(other), self.rng)
        refs = tuple(dict.fromkeys((*one.memory_refs, *other.memory_refs)))
        return Plan(trace, (one.worldline_id, other.worldline_id), refs, "recombined")

    def mutate(self, plan: Plan) -> Plan:
        """Returns a plan with one change, where something is wrong with it if anything is."""
        trace = tuple(plan.actions)
        said = self.problem.judge(self.problem.write(trace)).feedback() if trace else ""
        named = traces.named_in(said, trace)
        changed = traces.mutation(trace, self.problem.moves, self.rng, named, uses_all=self.problem.uses_all)
        return replace(plan, actions=changed, note=f"{plan.note}, changed".lstrip(", "))

    def verdict(self, line: Worldline) -> Verdict:
        """Returns what the problem says of a worldline."""
        return self.problem.judge(self.problem.write(moves(line)))

    def measure(self, line: Worldline) -> Worldline:
        """Returns a worldline with its raw metrics, its summary and its highlight; it is in the graph then."""
        plan = self.problem.write(moves(line))
        found = judge.PlanJudge({self.problem.id: self.problem})(function.Text(judge.content_of(self.problem, plan)))
        verdict = self.verdict(line)
        summary = f"{len(moves(line))} decisions, {len(verdict.faults)} faults, score {verdict.score:g}"
        highlight = verdict.faults[0].text if verdict.faults else "every constraint is satisfied"
        return self.graph.add(replace(line, metrics=dict(found.metrics), summary=summary, highlight=highlight))

    def archive(self, line: Worldline) -> Worldline:
        return self.graph.add(self.kind.archive(line))

    def close(self) -> None:
        self.kind.close()


def moves(line: Worldline) -> tuple[Action, ...]:
    """Returns the decisions that make the plan, without notes and wishes."""
    return tuple(each for each in line.decision_trace if isinstance(each, Task))


def of(fn: function.Function, problem: Problem) -> Worldline:
    """Returns a candidate of a run as a worldline: its trace, the critic's points as forks, its raw metrics."""
    born, found = fn.candidate, fn.evaluation
    meta: Mapping[str, object] = born.meta if born else {}
    critique = str(meta.get("critic", ""))
    points = tuple(WorldlineFork(line.strip("- ")) for line in critique.splitlines() if line.strip().startswith("-"))
    plan = judge.plan_of(str(fn.skeleton()))
    name, parents = (born.id, born.parents) if born else ("draft", ())
    return Worldline(
        name,
        parents or (BASE,),
        (*points, *problem.trace(plan)),
        memory_links={name: parents} if parents else {},
        agent_prompts=(f"critic: {critique}",) if critique else (),
        metrics={key: found.metrics[key] for key in METRICS if key in found.metrics} if found else {},
        summary=plan.partition("\n")[0],
        highlight=found.feedback.partition("\n")[0] if found else "",
        status="ran",
    )
