"""Forks, runs, evaluates, recombines and mutates the worldlines of one problem, and keeps them in a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from atoll import function
from atoll.mind import actions, backends, plan_evaluator, review, sub_agents, trace_mutator
from atoll.mind.actions import Action, Task, WorldlineFork
from atoll.mind.tasks.problem import PlanEvaluation, Problem
from atoll.mind.worldline import BASE, METRICS, Plan, Worldline, WorldlineGraph, initialize_worldline_graph


@dataclass(eq=False)
class WorldlineManager:
    """Operations on worldlines: fork, run, mutate, recombine, evaluate, archive.

    Attributes:
        problem: The problem.
        backend: Runs worldlines, as texts or as workspaces.
        graph: All worldlines.
        reviewer: Approves worldlines. Nothing that needs an approval happens without its record.
    """

    problem: Problem
    rng: Random = field(default_factory=lambda: Random(0))
    backend: backends.WorldlineBackend = field(default_factory=backends.TextBackend)
    graph: WorldlineGraph = field(default_factory=initialize_worldline_graph)
    reviewer: review.ReviewAgent = field(default_factory=review.ReviewAgent)

    def investigate(self, roles: Sequence[str] = ("explorer",)) -> Plan:
        """Returns an initial plan: the moves of the problem in random order."""
        return Plan(
            trace_mutator.random_trace(self.problem.moves, self.rng),
            (BASE,),
            note=f"investigated by {', '.join(roles)}",
        )

    def fork(self, parent: str, plan: Plan) -> Worldline:
        """Starts a worldline with the state of its parent. The plan has not run yet."""
        worldline = self.backend.fork(self.graph.get(parent), plan, f"W{len(self.graph.nodes)}")
        return self.graph.add(worldline)

    def run(self, plan: Plan) -> Worldline:
        """Forks the base and runs a plan. A plan contains the complete trace, so it never starts at its parents."""
        worldline = self.fork(BASE, plan)
        return self.graph.add(self.backend.run(worldline, plan))

    def recombine(self, first: Worldline, second: Worldline) -> Plan:
        """Returns a plan that combines two decision traces."""
        trace = trace_mutator.recombine_traces(get_moves(first), get_moves(second), self.rng)
        refs = tuple(dict.fromkeys((*first.memory_refs, *second.memory_refs)))
        return Plan(trace, (first.worldline_id, second.worldline_id), refs, "recombined")

    def mutate(self, plan: Plan) -> Plan:
        """Returns a plan with one change, at an error if it has any."""
        trace = tuple(plan.actions)
        feedback = self.problem.evaluate(self.problem.format_plan(trace)).format_feedback() if trace else ""
        named_goals = trace_mutator.find_named_goals(feedback, trace)
        mutated = trace_mutator.mutate_trace(
            trace, self.problem.moves, self.rng, named_goals, requires_all_moves=self.problem.requires_all_moves
        )
        return replace(plan, actions=mutated, note=f"{plan.note}, changed".lstrip(", "))

    def evaluate_plan(self, worldline: Worldline) -> PlanEvaluation:
        """Returns the problem's evaluation of a worldline."""
        return self.problem.evaluate(self.problem.format_plan(get_moves(worldline)))

    def evaluate(self, worldline: Worldline) -> Worldline:
        """Adds raw metrics, summary and highlight to a worldline and updates the graph."""
        plan = self.problem.format_plan(get_moves(worldline))
        result = plan_evaluator.PlanEvaluator({self.problem.id: self.problem})(
            function.Text(plan_evaluator.make_content(self.problem, plan))
        )
        plan_evaluation = self.evaluate_plan(worldline)
        num_decisions, num_errors = len(get_moves(worldline)), len(plan_evaluation.errors)
        summary = f"{num_decisions} decisions, {num_errors} errors, score {plan_evaluation.score:g}"
        highlight = plan_evaluation.errors[0].message if plan_evaluation.errors else "every constraint is satisfied"
        return self.graph.add(replace(worldline, metrics=dict(result.metrics), summary=summary, highlight=highlight))

    def archive(self, worldline: Worldline) -> Worldline:
        return self.graph.add(self.backend.archive(worldline))

    def close(self) -> None:
        self.backend.close()


def get_moves(worldline: Worldline) -> tuple[Action, ...]:
    """Returns the decisions of the plan, without notes and forks."""
    return tuple(action for action in worldline.decision_trace if isinstance(action, Task))


def make_worldline(fn: function.Function, problem: Problem) -> Worldline:
    """Returns a candidate of a run as a worldline: trace, metrics, memory, tools and the point that it forks from."""
    candidate, evaluation = fn.candidate, fn.evaluation
    meta: Mapping[str, Any] = candidate.meta if candidate else {}
    critique, fork = str(meta.get("critic", "")), str(meta.get("fork", ""))
    notes = sub_agents.collect_notes([meta])
    plan = plan_evaluator.get_plan(str(fn.skeleton()))
    worldline_id, parents = (candidate.id, candidate.parents) if candidate else ("draft", ())
    calls = tuple(Task(note.role, note.text.partition("\n")[0]) for note in notes)
    return Worldline(
        worldline_id,
        parents or (BASE,),
        (*((WorldlineFork(fork),) if fork else ()), *calls, *problem.parse_trace(plan)),
        memory_refs=tuple(note.id for note in notes),
        memory_links={worldline_id: parents} if parents else {},
        agent_prompts=(
            *(f"{note.role}: {note.text}" for note in notes),
            *((f"critic: {critique}",) if critique else ()),
        ),
        metrics={key: evaluation.metrics[key] for key in METRICS if key in evaluation.metrics} if evaluation else {},
        summary=plan.partition("\n")[0],
        highlight=evaluation.feedback.partition("\n")[0] if evaluation else "",
        tool_history=tuple(actions.result_from_data(data) for data in meta.get("tools") or ()),
        status="ran",
    )
