"""Manager of the worldlines of one problem, and reviews of worldlines with their approvals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from atoll import candidate, errors, function, gate, llm
from atoll.mind import actions, plan_evaluator, trace_mutator, worldline
from atoll.mind.actions import Action, Task, WorldlineFork
from atoll.mind.tasks.problem import PlanEvaluation, Problem
from atoll.mind.worldline import BASE, METRICS, Plan, Worldline, WorldlineGraph, initialize_worldline_graph


@dataclass(frozen=True, slots=True)
class Approval:
    """Record of a review, as plain data.

    Attributes:
        worldline_id: The reviewed worldline.
        digest: Hash of its content at that time.
        is_approved: The decision.
        reason: Why.
        by: The reviewer.
    """

    worldline_id: str
    digest: str
    is_approved: bool
    reason: str
    by: str

    def covers(self, worldline_id: str, content: str) -> bool:
        """Returns whether it approves exactly this content."""
        return self.is_approved and self.worldline_id == worldline_id and self.digest == candidate.content_hash(content)


@dataclass(eq=False)
class ReviewAgent:
    """Reviews worldlines by rules or with an LLM, and records each decision.

    Attributes:
        rule: Gate that decides on a proposal. By default, evaluated candidates are accepted.
        model: LLM that writes critiques, if any.
        records: All decisions, in order.
    """

    rule: gate.Gate | None = None
    model: llm.LLM | None = None
    name: str = "review agent"
    records: list[Approval] = field(default_factory=list)

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        """Decides on a candidate of a run, as a gate."""
        if self.rule is not None:
            return self.rule(proposal)
        evaluation = proposal.evaluation
        if evaluation is None or evaluation.failure is not None:
            return gate.Decision(
                "reject", evaluation.failure if evaluation and evaluation.failure else "not evaluated", self.name
            )
        return gate.Decision("accept", "evaluated", self.name)

    def review(self, worldline: Worldline, content: str, metrics: Mapping[str, float]) -> Approval:
        """Approves a worldline with complete progress and no contradictions, and records the decision."""
        progress, consistency = metrics.get("task_progress", 0.0), metrics.get("temporal_consistency", 0.0)
        is_approved = progress >= 1.0 and consistency >= 1.0
        reason = "complete and consistent" if is_approved else f"progress {progress:.2f}, consistency {consistency:.2f}"
        approval = Approval(worldline.worldline_id, candidate.content_hash(content), is_approved, reason, self.name)
        self.records.append(approval)
        return approval

    def require(self, worldline_id: str, content: str) -> Approval:
        """Returns the newest record that approves exactly this content.

        Raises:
            Conflict: The worldline was not approved, or was changed since.
        """
        for record in reversed(self.records):
            if record.worldline_id == worldline_id:
                if record.covers(worldline_id, content):
                    return record
                reason = "was changed after its approval" if record.is_approved else f"was rejected: {record.reason}"
                raise errors.Conflict(f"{worldline_id} {reason}. Review it again.")
        raise errors.Conflict(f"{worldline_id} is not approved. Review it first.")

    def criticize(self, prompt: str) -> str:
        """Returns the critique of the LLM; empty without an LLM."""
        return self.model(prompt).text if self.model is not None else ""


def to_data(approval: Approval) -> dict[str, Any]:
    """Returns an approval as plain data."""
    names = ("worldline_id", "digest", "is_approved", "reason", "by")
    return {name: getattr(approval, name) for name in names}


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
    backend: worldline.WorldlineBackend = field(default_factory=worldline.TextBackend)
    graph: WorldlineGraph = field(default_factory=initialize_worldline_graph)
    reviewer: ReviewAgent = field(default_factory=ReviewAgent)

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
    notes = actions.collect_notes([meta])
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
